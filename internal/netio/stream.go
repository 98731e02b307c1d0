package netio

import (
	"errors"
	"fmt"
	"time"
)

// Errors of streams, told to Handler.Failed. Those of the operating system come wrapped, or as ErrRefused and
// ErrUnreachable.
var (
	ErrEnded  = errors.New("stream ended by the peer")
	ErrFrame  = errors.New("frame length out of bounds")
	ErrSilent = errors.New("no frame in time")          // StreamOptions.HelloTimeout
	ErrSlow   = errors.New("peer reads too little")     // StreamOptions.Backlog
	ErrFrames = errors.New("largest frame unsupported") // ListenStream, DialStream: StreamOptions.MaxFrame
)

// StreamOptions are those of a TCP connection that carries frames, each a datagram with its length before it, or of a
// listener and the connections it accepts.
type StreamOptions struct {
	Prefix Prefix
	// MaxFrame is the size in bytes of the largest frame received, at most MaxDatagram, which is the default. A length
	// beyond it, or below 1, ends the connection.
	MaxFrame int
	// Backlog is how many bytes may wait for a peer that reads slowly, beside the kernel's buffer; 256 KiB if zero.
	// Beyond it the connection is closed and ErrSlow told.
	Backlog int
	// HelloTimeout is how long an accepted connection may take until its first frame is whole; 10 s if zero.
	HelloTimeout time.Duration
	// MaxConns is how many accepted connections of a listener may be open; 10,000 if zero. More are closed at once.
	MaxConns int
	// ReusePort is that of SocketOptions.
	ReusePort bool
}

// Defaults of StreamOptions.
const (
	defaultBacklog = 256 << 10
	defaultHello   = 10 * time.Second
	defaultConns   = 10_000
)

// lingerTime is how long a closed stream may take to send its last bytes and to be closed by its peer.
const lingerTime = 2 * time.Second

// acceptPause is how long a listener rests when the process has no descriptor left for a connection.
const acceptPause = 100 * time.Millisecond

func (o StreamOptions) withDefaults() (StreamOptions, error) {
	if o.MaxFrame == 0 {
		o.MaxFrame = MaxDatagram
	}
	if o.Backlog == 0 {
		o.Backlog = defaultBacklog
	}
	if o.HelloTimeout == 0 {
		o.HelloTimeout = defaultHello
	}
	if o.MaxConns == 0 {
		o.MaxConns = defaultConns
	}
	if o.MaxFrame < 0 || o.MaxFrame > MaxDatagram {
		return o, fmt.Errorf("%w: %d bytes", ErrFrames, o.MaxFrame)
	}
	return o, nil
}

func (o *StreamOptions) framing() framing { return framing{prefix: o.Prefix, max: o.MaxFrame} }
