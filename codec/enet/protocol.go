// Package enet speaks ENet 1.3, the reliable UDP library of Lee Salzman, as a server and as a client. It has no
// sockets, clocks or goroutines. docs/protocols/enet.md describes the wire, its rules, and the differences between
// this package and the library.
//
// A datagram carries commands. Each reliable command has a number on its channel, and the peer acknowledges each
// separately. Start with Protocol, then read Conn in conn.go. Each concern has its file: datagrams and commands
// (wire.go), the two handshakes (handshake.go), outgoing messages and round trips (outbox.go, flight.go, transmit.go),
// incoming messages (receive.go, inbox.go, parts.go), and the sender's own dropping (flight.go).
package enet

import (
	"cmp"
	"crypto/sha256"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/enum"
)

// Checksums says whether datagrams have a checksum. The wire does not negotiate it: both ends must agree.
type Checksums uint8

// Values of Checksums.
const (
	ChecksumsAuto Checksums = iota // a server follows each client's first datagram; a client sends no checksum
	ChecksumsOn                    // always; a server ignores clients without a checksum
	ChecksumsOff                   // never; a server ignores clients with a checksum
)

// Compression says whether datagrams are compressed by the range coder that the library has built in. A host with it
// takes plain datagrams, too. The wire does not negotiate it.
type Compression uint8

// Values of Compression.
const (
	CompressionAuto  Compression = iota // if the peer's handshake is compressed
	CompressionRange                    // a client compresses from the beginning; a server as with CompressionAuto
	CompressionOff                      // never; compressed datagrams are not understood
)

// The values' names in the configuration.
var (
	checksumNames    = []string{ChecksumsAuto: "auto", ChecksumsOn: "on", ChecksumsOff: "off"}
	compressionNames = []string{CompressionAuto: "auto", CompressionRange: "range-coder", CompressionOff: "off"}
)

// String returns the value as in the configuration.
func (c Checksums) String() string { return enum.Name(checksumNames, c) }

// UnmarshalText reads String's form.
func (c *Checksums) UnmarshalText(text []byte) error { return enum.Parse(checksumNames, text, c) }

// Choices lists the values that UnmarshalText reads.
func (Checksums) Choices() []string { return checksumNames }

// String returns the value as in the configuration.
func (c Compression) String() string { return enum.Name(compressionNames, c) }

// UnmarshalText reads String's form.
func (c *Compression) UnmarshalText(text []byte) error { return enum.Parse(compressionNames, text, c) }

// Choices lists the values that UnmarshalText reads.
func (Compression) Choices() []string { return compressionNames }

// Bounds and defaults of Options.
const (
	minMTU      = 576 // the library's bounds
	maxMTU      = 4096
	maxChannels = 255

	defaultMTU         = 1392
	defaultMaxMessage  = 6 << 20
	defaultMaxQueued   = 4 << 20
	defaultDialTimeout = 10 * time.Second
	defaultTimeout     = 30 * time.Second

	defaultTimeoutLimit   = 32
	defaultTimeoutMinimum = 5 * time.Second
)

// maxUnreliable bounds the bytes of an unreliable message: the loss of one fragment loses the whole message.
const maxUnreliable = 128 << 10

// Options tune a Protocol.
type Options struct {
	// Checksums says whether datagrams have a checksum.
	Checksums Checksums
	// Compression says whether datagrams are compressed.
	Compression Compression
	// Channels is the number of channels that a client requests, and the most that a server grants; 255 if zero.
	Channels int
	// MTU bounds the bytes of our datagrams; 1392 if zero, as in the library since 1.3.18. Both ends use the smaller one.
	MTU int
	// MaxMessage bounds the bytes of one message in either direction; 6 MiB if zero. The bound of unreliable ones is 128
	// KiB.
	MaxMessage int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged; 4 MiB if zero. A message counts for at
	// most half of it.
	MaxQueued int
	// DialTimeout is how long Dial waits for an answer, and a server for a client's answer; 10 s if zero.
	DialTimeout time.Duration
	// TimeoutLimit, TimeoutMinimum and Timeout are the three values of enet_peer_timeout; 32, 5 s and 30 s if zero, as in
	// the library. A silent peer counts as gone after the minimum, or later where round trips are long: the library sends
	// a command until its time-out has grown by the limit. Timeout bounds both.
	TimeoutLimit            int
	TimeoutMinimum, Timeout time.Duration
	// Seed makes IDs, sessions and times unguessable for an attacker that cannot read the connection's datagrams.
	Seed [32]byte

	coders *coders
	// base is added to all first numbers. It is 0 in every real session. Tests of wrap-around choose another.
	base uint16
	// follows is the last unreliable number of every channel before its first message, likewise.
	follows uint16
}

func (o Options) withDefaults() Options {
	o.Channels = min(cmp.Or(o.Channels, maxChannels), maxChannels)
	o.MTU = min(max(cmp.Or(o.MTU, defaultMTU), minMTU), maxMTU)
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMaxMessage)
	o.MaxQueued = cmp.Or(o.MaxQueued, defaultMaxQueued)
	o.DialTimeout = cmp.Or(o.DialTimeout, defaultDialTimeout)
	o.TimeoutLimit = cmp.Or(o.TimeoutLimit, defaultTimeoutLimit)
	o.TimeoutMinimum = cmp.Or(o.TimeoutMinimum, defaultTimeoutMinimum)
	o.Timeout = max(cmp.Or(o.Timeout, defaultTimeout), o.TimeoutMinimum)
	// Even with the smallest MTU a message must fit into the numbers that may be in flight on a channel.
	o.MaxMessage = min(o.MaxMessage, maxParts*fragmentRoom(minMTU, true))
	return o
}

// maxPayload returns the size in bytes of the largest message of a mode.
func (o *Options) maxPayload(m codec.Mode) int {
	if m.IsReliable() {
		return o.MaxMessage
	}
	return min(o.MaxMessage, maxUnreliable)
}

// Protocol is ENet with its options. It is immutable and safe for concurrent use.
type Protocol struct {
	spec    codec.Spec
	options Options
}

// New returns the protocol with options o.
func New(o Options) *Protocol {
	o = o.withDefaults()
	o.coders = new(coders)
	return &Protocol{spec: specOf(&o), options: o}
}

// ForLoop implements codec.PerLoop: the connections of a loop share a range coder.
func (p *Protocol) ForLoop() codec.Protocol {
	local := *p
	local.options.coders = new(coders)
	return &local
}

// specOf returns the Spec of a Protocol with the given options. The acknowledgement of VerifyConnect proves an
// address. It echoes the time, the peer ID and the session, which are sent only to the client's address. Only a Seed
// makes them unguessable. A client writes our peer ID, which is below noPeer except in a Connect. The first datagrams
// of clients that we do not understand, and queries, pass the kernel's filter: so they are counted.
func specOf(o *Options) codec.Spec {
	s := codec.Spec{
		Name: "enet", Modes: modes, Channels: maxChannels, Proof: codec.ProvedConnect,
		Openings: codec.ByteSetOf(connectByte, compressedByte, queryByte), IdleTimeout: o.Timeout,
	}
	for b := range 256 {
		if b&0x0f != 0x0f && (b&compressedBit == 0 || o.Compression != CompressionOff) || b == connectByte {
			s.FirstBytes.Add(byte(b), byte(b))
		}
	}
	s.FirstBytes = s.FirstBytes.Or(s.Openings)
	if o.Seed == [32]byte{} {
		s.Proof = codec.NoProof
	}
	return s
}

// First bytes of datagrams without a session.
const (
	connectByte    = 0x8f // a Connect, and no other datagram of a client
	compressedByte = 0xcf // a compressed Connect
	queryByte      = 0xff // an out-of-band query: ff ff ff ff and a word
)

var (
	_ codec.Opaque  = (*Protocol)(nil)
	_ codec.PerLoop = (*Protocol)(nil)
)

// SniffOpaque implements codec.Opaque: it recognizes a Connect that is compressed in another way.
func (p *Protocol) SniffOpaque(datagram []byte) bool {
	var h header
	rest, err := h.parse(datagram)
	return err == nil && h.peer == noPeer && h.timed && h.compressed && h.session == 0 &&
		len(rest) > 0 && len(rest) < checksumLen+wholeConnect
}

// modes are unreliable (ENet's unsequenced packets), unreliable-sequenced (its unreliable ones) and reliable-ordered.
const modes = codec.Modes(1<<codec.Unreliable | 1<<codec.UnreliableSequenced | 1<<codec.ReliableOrdered)

// Spec implements codec.Protocol.
func (p *Protocol) Spec() *codec.Spec { return &p.spec }

// Sniff reports whether the datagram is a Connect, with or without a checksum as the options say.
func (p *Protocol) Sniff(datagram []byte) bool {
	_, ok := p.options.parseConnect(datagram)
	return ok
}

// request is a client's Connect, and what its datagram shows of the client.
type request struct {
	connect
	summed, packed bool // it has a checksum, and is compressed
}

// wholeConnect is the size of a Connect's command.
const wholeConnect = commandLen + connectLen

// parseConnect reads a client's first datagram.
func (o *Options) parseConnect(datagram []byte) (c request, ok bool) {
	var h header
	rest, err := h.parse(datagram)
	if err != nil || h.peer != noPeer || !h.timed || h.session != 0 {
		return c, false
	}
	at := len(datagram) - len(rest)
	if h.compressed {
		var room [headerLen + timeLen + checksumLen + wholeConnect]byte
		if datagram, ok = o.unpackConnect(room[:0], datagram, at); !ok {
			return c, false
		}
	}
	switch len(datagram) - at {
	case wholeConnect:
	case checksumLen + wholeConnect:
		if !checksumFits(datagram, at, nil) {
			return c, false
		}
		c.summed = true
	default:
		return c, false
	}
	var cmd command
	if _, err := cmd.parse(datagram[len(datagram)-wholeConnect:]); err != nil || cmd.kind != kindConnect ||
		!cmd.wantsAck || cmd.channel != controlChannel {
		return c, false
	}
	c.parse(cmd.body)
	c.packed = h.compressed
	if c.summed && o.Checksums == ChecksumsOff || !c.summed && o.Checksums == ChecksumsOn {
		return c, false
	}
	return c, c.channels >= 1 && c.channels <= maxChannels && c.mtu >= minMTU
}

// unpackConnect appends a compressed Connect, with or without a checksum, as it was before.
func (o *Options) unpackConnect(b, datagram []byte, at int) ([]byte, bool) {
	if o.Compression == CompressionOff || len(datagram) >= at+checksumLen+wholeConnect {
		return b, false
	}
	for _, body := range [...]int{at, at + checksumLen} {
		if len(datagram) <= body {
			break
		}
		plain, ok := o.coders.unpack(append(b, datagram[:body]...), datagram[body:], wholeConnect)
		if ok && len(plain) == body+wholeConnect {
			return plain, true
		}
	}
	return b, false
}

// Accept makes a Conn for each valid Connect. The client proves its address afterwards, when it acknowledges our
// VerifyConnect.
func (p *Protocol) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	asks, ok := p.options.parseConnect(datagram)
	if !ok {
		return nil, reply, codec.ErrMalformed
	}
	return newConn(&p.options, now, p.newSecrets(now, from)).accept(&asks), reply, nil
}

// Refuse appends a Disconnect without an acknowledgement. A client that waits for its VerifyConnect obeys it.
func (p *Protocol) Refuse(datagram, reply []byte, _ codec.Reason) []byte {
	asks, ok := p.options.parseConnect(datagram)
	if !ok {
		return reply
	}
	return appendRefusal(reply, &asks.connect, asks.summed, 0)
}

// Dial opens a connection to a server. Hello.Data is ENet's connect data if it has 4 bytes.
func (p *Protocol) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	return newConn(&p.options, now, p.newSecrets(now, to)).dial(hello)
}

// secrets are values that an attacker does not know unless it reads a connection's datagrams.
type secrets struct {
	_         struct{} `cbor:",toarray"`
	ID        uint16   // our peer ID, at most maxID
	Session   uint8    // 0 to 15: the session that we read, and the one that we write
	Clock     uint16   // offset of our clock
	ConnectID [4]byte
}

// newSecrets derives the secrets of a connection. All are 0 without a Seed. Connections dialed to one server at the
// same instant share them. The server distinguishes them by their ports.
func (p *Protocol) newSecrets(now time.Time, peer netip.AddrPort) secrets {
	if p.options.Seed == [32]byte{} {
		return secrets{}
	}
	var b [32 + 8 + 16 + 2]byte
	copy(b[:], p.options.Seed[:])
	be.PutUint64(b[32:], uint64(now.UnixNano()))
	ip := peer.Addr().As16()
	copy(b[40:], ip[:])
	be.PutUint16(b[56:], peer.Port())
	return secretsOf(sha256.Sum256(b[:]))
}

func secretsOf(sum [sha256.Size]byte) secrets {
	s := secrets{ID: be.Uint16(sum[:]) % (maxID + 1), Session: sum[2] & 0x0f, Clock: be.Uint16(sum[4:])}
	copy(s.ConnectID[:], sum[8:])
	return s
}
