package netio

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/source"
)

// Errors of streams for Handler.Failed. System errors are wrapped, or become ErrRefused and ErrUnreachable.
var (
	ErrEnded  = errors.New("stream closed by the peer")
	ErrFrame  = errors.New("frame length out of bounds")
	ErrSilent = errors.New("no frame in time")       // StreamOptions.HelloTimeout
	ErrSlow   = errors.New("peer reads too slowly")  // StreamOptions.Backlog
	ErrFrames = errors.New("unsupported frame size") // ListenStream, DialStream: StreamOptions.MaxFrame
)

// StreamOptions configure a TCP connection of frames, or a listener and its connections. Each frame is a datagram
// after its length.
type StreamOptions struct {
	Prefix Prefix
	// MaxFrame is the size in bytes of the largest incoming frame. The default and upper bound is MaxDatagram. A length
	// above MaxFrame or below 1 ends the connection.
	MaxFrame int
	// Backlog bounds the bytes that wait for a slow peer, beside the kernel's buffer. 0 means 256 KiB. Beyond it the
	// connection ends with ErrSlow.
	Backlog int
	// HelloTimeout bounds the time until the first frame of an accepted connection is complete. 0 means 10 s.
	HelloTimeout time.Duration
	// MaxConns bounds the accepted connections of a listener. 0 means 10,000. More connections are closed at once.
	MaxConns int
	// Hellos bounds the accepted connections that have no session yet. More connections are closed at once.
	Hellos HelloLimits
	// ReusePort is as in SocketOptions.
	ReusePort bool
}

// Defaults of StreamOptions.
const (
	defaultBacklog = 256 << 10
	defaultHello   = 10 * time.Second
	defaultConns   = 10_000
)

// lingerTime bounds the time in which a closed stream sends its last bytes and waits for its peer to close.
const lingerTime = 2 * time.Second

// acceptPause is the pause of a listener after the process has run out of descriptors.
const acceptPause = 100 * time.Millisecond

func (o StreamOptions) withDefaults() (StreamOptions, error) {
	o.MaxFrame = cmp.Or(o.MaxFrame, MaxDatagram)
	o.Backlog = cmp.Or(o.Backlog, defaultBacklog)
	o.HelloTimeout = cmp.Or(o.HelloTimeout, defaultHello)
	o.MaxConns = cmp.Or(o.MaxConns, defaultConns)
	if o.MaxFrame < 0 || o.MaxFrame > MaxDatagram {
		return o, fmt.Errorf("%w: %d bytes", ErrFrames, o.MaxFrame)
	}
	return o, nil
}

func (o *StreamOptions) framing() framing { return framing{prefix: o.Prefix, max: o.MaxFrame} }

// Prefix is the format of the length before each frame of a stream.
type Prefix uint8

// The prefixes.
const (
	LengthU16LE Prefix = iota // 2 bytes, little-endian: Riptide 2.0
	LengthI32LE               // 4 bytes, little-endian and signed: Riptide 2.1 and later
)

// PrefixOf returns the prefix with a size in bytes, 2 or 4.
func PrefixOf(size int) Prefix {
	if size == LengthI32LE.size() {
		return LengthI32LE
	}
	return LengthU16LE
}

// size returns the prefix's own length in bytes.
func (p Prefix) size() int {
	if p == LengthI32LE {
		return 4
	}
	return 2
}

// Append appends the prefix of a frame of n bytes.
func (p Prefix) Append(b []byte, n int) []byte {
	if p == LengthI32LE {
		return binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return binary.LittleEndian.AppendUint16(b, uint16(n))
}

// framing is the format of a stream's frames, which have 1 to max bytes.
type framing struct {
	prefix Prefix
	max    int
}

// cut returns the first frame of b and the bytes after it. A nil frame without an error is incomplete.
func (f framing) cut(b []byte) (frame, rest []byte, err error) {
	head := f.prefix.size()
	if len(b) < head {
		return nil, b, nil
	}
	n := int(binary.LittleEndian.Uint16(b))
	if f.prefix == LengthI32LE {
		n = int(int32(binary.LittleEndian.Uint32(b)))
	}
	if n < 1 || n > f.max {
		return nil, nil, ErrFrame
	}
	if len(b) < head+n {
		return nil, b, nil
	}
	end := head + n
	return b[head:end:end], b[end:], nil
}

// fits reports whether a frame of n bytes can be sent.
func (f framing) fits(n int) bool { return n > 0 && n <= MaxDatagram }

// append appends a frame with its prefix.
func (f framing) append(b, frame []byte) []byte {
	return append(f.prefix.Append(b, len(frame)), frame...)
}

// HelloLimits bound a listener's connections until the handler keeps their first frame. A closed connection without
// a session counts until its descriptor is free. 0 means no bound.
type HelloLimits struct {
	Address int // of one address; in IPv6 of one /64
	Network int // of one IPv4 /24 or IPv6 /48
	Overall int
}

// hellos counts a listener's connections without a session. It has at most one key for each of them.
type hellos struct {
	limits              HelloLimits
	all                 int
	addresses, networks map[netip.Prefix]int
}

func newHellos(l HelloLimits) hellos {
	return hellos{limits: l, addresses: make(map[netip.Prefix]int), networks: make(map[netip.Prefix]int)}
}

// helloKeys returns the address and the network by which a peer counts.
func helloKeys(peer netip.AddrPort) (address, network netip.Prefix) {
	of := source.Of(peer.Addr())
	return of.Address(), of.Network()
}

// take counts a connection. It reports false, and counts nothing, if there are too many.
func (h *hellos) take(peer netip.AddrPort) bool {
	address, network := helloKeys(peer)
	l := &h.limits
	switch {
	case l.Overall > 0 && h.all >= l.Overall,
		l.Address > 0 && h.addresses[address] >= l.Address,
		l.Network > 0 && h.networks[network] >= l.Network:
		return false
	}
	h.all++
	h.addresses[address]++
	h.networks[network]++
	return true
}

// leave stops counting a connection.
func (h *hellos) leave(peer netip.AddrPort) {
	address, network := helloKeys(peer)
	h.all--
	if h.addresses[address]--; h.addresses[address] == 0 {
		delete(h.addresses, address)
	}
	if h.networks[network]--; h.networks[network] == 0 {
		delete(h.networks, network)
	}
}
