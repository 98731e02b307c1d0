package bridge

import (
	"errors"
	"time"

	"tidegate/codec"
)

// Sender sends messages to one side of a session. It keeps the messages that wait, and copies of messages whose fate is
// not known. The zero value has no connection.
type Sender struct {
	Conn  codec.Conn // nil while there is none
	Down  bool       // Conn has ended
	Keeps bool       // a copy of each reliable message is kept until it was delivered
	Away  bool       // there is no peer for a while: messages to it are kept

	order order
	kept  resends
	joint *aggregate // nil until there is one
}

// Live reports whether there is a connection that has not ended.
func (s *Sender) Live() bool { return s.Conn != nil && !s.Down }

// Takes reports whether messages may be sent.
func (s *Sender) Takes() bool { return s.Live() || s.Away }

// Held returns how many bytes of messages wait for their turn.
func (s *Sender) Held() int { return s.order.bytes }

// HasLost reports whether messages were lost that wait for Resume or Purge.
func (s *Sender) HasLost() bool { return s.kept.lost > 0 }

// careFor returns the care for a message that a Direction would give the care c.
func (s *Sender) careFor(c care, want codec.Mode) care {
	if s.Away && c != careResend && want.IsReliable() || s.Keeps && c == careNone && want.IsReliable() {
		return careHold
	}
	return c
}

// errAway: the message is not one that waits for a server.
var errAway = errors.New("no server at the moment")

// send gives a message to the connection. A kept message waits where there is none.
func (s *Sender) send(now time.Time, m *codec.Message) error {
	switch {
	case !s.Away:
		return s.Conn.Send(now, *m)
	case m.Receipt&resendBit != 0:
		return nil
	}
	return errAway
}
