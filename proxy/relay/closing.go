package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// lingerTime bounds how long a session's goodbyes may take. Codecs give up earlier.
const lingerTime = 5 * time.Second

const (
	// maxClosing bounds the closing connections at a time. Beyond it, a goodbye is sent once and not repeated if lost.
	maxClosing = 4096
	// maxLate bounds the payload, in bytes, that a client still gets from a server after its session has left.
	maxLate = 256 << 10
)

// closingConns are a Relay's closing connections, to servers that their sessions have left.
type closingConns struct {
	list []*closingConn
	due  time.Time // when Advance is due for the first of them; zero: never
}

// closingConn is a closing connection, with its own socket.
type closingConn struct {
	conn     codec.Conn
	socket   netio.Socket
	of       *Entry // the session that had it
	preamble *preamble
	until    time.Time
	late     int  // bytes that the client has got through it
	over     bool // Disconnected
}

// plan makes sure that a closing connection is advanced in time.
func (ps *closingConns) plan(x *closingConn) {
	for _, at := range [...]time.Time{x.until, x.conn.NextTimeout()} {
		if !at.IsZero() && (ps.due.IsZero() || at.Before(ps.due)) {
			ps.due = at
		}
	}
}

func (x *closingConn) topic() topic {
	return topicOf(x.of.Value.route, x.of.Key.Client, x.of.Value.serial)
}
