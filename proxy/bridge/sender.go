package bridge

import (
	"errors"
	"time"

	"tidegate/codec"
)

// Sender sends messages to one side of a session. It keeps waiting messages, and copies of messages whose fate is not
// known. The zero value has no connection.
type Sender struct {
	Conn  codec.Conn // nil while there is no connection
	Down  bool       // Conn has ended
	Keeps bool       // the Sender keeps a copy of each reliable message until its delivery
	Away  bool       // there is no peer for a while: the Sender keeps messages to it

	order order
	kept  resends
	joint *aggregate // nil until the first message joins
}

// Live reports whether there is a connection that has not ended.
func (s *Sender) Live() bool { return s.Conn != nil && !s.Down }

// Takes reports whether messages may be sent.
func (s *Sender) Takes() bool { return s.Live() || s.Away }

// Held returns how many bytes of messages wait for their turn.
func (s *Sender) Held() int { return s.order.bytes }

// Copied returns how many bytes the copies of messages have whose fate is not known.
func (s *Sender) Copied() int { return s.kept.bytes }

// HasLost reports whether lost messages wait for Resume or Purge.
func (s *Sender) HasLost() bool { return s.kept.lost > 0 }

// careFor returns the care for a message whose Direction asks for the care c.
func (s *Sender) careFor(c care, want codec.Mode) care {
	if s.Away && c != careResend && want.IsReliable() || s.Keeps && c == careNone && want.IsReliable() {
		return careHold
	}
	return c
}

// errAway reports that there is no server, and that the message does not wait for one.
var errAway = errors.New("no server at the moment")

// send gives a message to the connection. Without a connection, a kept message waits.
func (s *Sender) send(now time.Time, m *codec.Message) error {
	switch {
	case !s.Away:
		return s.Conn.Send(now, *m)
	case m.Receipt&resendBit != 0:
		return nil
	}
	return errAway
}
