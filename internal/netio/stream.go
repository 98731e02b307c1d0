package netio

import (
	"cmp"
	"errors"
	"fmt"
	"time"
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
