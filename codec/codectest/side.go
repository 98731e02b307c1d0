package codectest

import (
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"time"

	"tidegate/codec"
)

const (
	maxRound    = 20_000 // events of one Poll round, datagrams of one Transmit round
	maxAdvances = 2000   // Advance calls in a virtual second
)

// side is one Conn under observation, with the application behind it. It obeys both laws of the contract, and reports
// every event that breaks a promise.
type side struct {
	name string
	c    *Config
	r    *report
	rng  *rand.Rand
	conn codec.Conn
	out  *ledger // messages that this side sends
	in   *ledger // messages that the peer sends

	onReceived func(codec.Message) // replaces the ledger, if set
	plan       []planned           // messages that the application sends, by time
	asked      codec.Event
	admitAfter time.Duration // how long the application waits before it answers Asked; negative: for ever
	admitAt    time.Time
	admitID    uint16
	greetAt    time.Time
	unheard    func() bool // whether the client still wants a greeting; nil: the protocol has none

	wasAsked, connected, over bool
	granted                   bool
	grantedBy                 uint64        // from Granted
	silent                    bool          // the side is over, and its last Transmit round is done
	clientID                  uint16        // from Connected
	goodbye                   codec.Goodbye // from Disconnected
	joined, left              []uint16

	stats        codec.Stats // as last seen
	lent         []lent
	accepted     time.Time     // when Receive last took a datagram
	buffer       []byte        // for Transmit
	saving       *saving       // nil: the Conn is never saved
	stopped      bool          // its process stands still, and what arrives is lost
	late         time.Duration // delay of each wake-up after its timeout, as in a busy loop
	advancedFrom time.Time     // the timeout of an Advance without a Transmit round yet; else zero
	second       int64         // the virtual second in which advances counts
	advances     int
}

// planned is a message that the application will send.
type planned struct {
	at      time.Time
	mode    codec.Mode
	channel uint8
	size    int
	pad     uint8
	receipt bool
}

// lent is a payload from Poll, which must stay unchanged until the next input.
type lent struct {
	payload []byte
	sum     uint64
}

var sumSeed = maphash.MakeSeed()

// receive gives the Conn a datagram and drains it. At random it also calls Advance early, which must be harmless.
func (s *side) receive(now time.Time, datagram []byte) {
	if s.stopped {
		return
	}
	// The codec may drop any datagram for its own reasons. The ledger shows whether a drop mattered.
	dropped := s.conn.Stats().Dropped
	if s.conn.Receive(now, datagram) == nil && s.conn.Stats().Dropped == dropped {
		s.accepted = now
	}
	s.drain(now)
	if !s.over && s.rng.IntN(4) == 0 {
		s.conn.Advance(now)
		s.drain(now)
	}
}

// advance does the work that is due in the Conn and in the application.
func (s *side) advance(now time.Time) {
	if s.stopped {
		return
	}
	if due := s.conn.NextTimeout(); !due.IsZero() && !due.After(now) {
		s.conn.Advance(now)
		s.drain(now)
		s.advancedFrom = due
		s.countAdvance(now)
	}
	if !s.admitAt.IsZero() && !s.admitAt.After(now) {
		s.admitAt = time.Time{}
		s.conn.Admit(now, s.admitID)
		s.drain(now)
		s.greet(now)
	}
	if !s.greetAt.IsZero() && !s.greetAt.After(now) {
		s.greet(now)
	}
	for len(s.plan) > 0 && !s.plan[0].at.After(now) {
		next := s.plan[0]
		s.plan = s.plan[1:]
		if !s.over {
			s.send(now, next)
		}
	}
}

// countAdvance bounds how often a Conn may ask for Advance.
func (s *side) countAdvance(now time.Time) {
	if second := now.Unix(); second != s.second {
		s.second, s.advances = second, 0
	}
	if s.advances++; s.advances == maxAdvances {
		s.r.Errorf("%s: busy: asked for %d Advance calls within a virtual second", s.name, maxAdvances)
	}
}

// send sends one message that the Conn has to accept, unless its queue is full.
func (s *side) send(now time.Time, p planned) {
	m := s.out.compose(p.mode, p.channel, p.size, p.pad, p.receipt)
	switch err := s.conn.Send(now, m); {
	case err == nil:
		s.out.accepted(m)
	case !errors.Is(err, codec.ErrFull):
		s.r.Errorf("%s: Send of %d bytes %v: %v", s.name, p.size, p.mode, err)
	}
}

// close says goodbye and drains. It spoils the goodbye's data, which was only lent.
func (s *side) close(now time.Time, why codec.Goodbye) {
	why.Data = append([]byte(nil), why.Data...)
	s.conn.Close(now, why)
	for i := range why.Data {
		why.Data[i] = 0xee
	}
	s.drain(now)
}

// drain polls until no event is left. It checks that the payloads of the round stayed unchanged.
func (s *side) drain(now time.Time) {
	s.lent = s.lent[:0]
	for range maxRound {
		e, ok := s.conn.Poll()
		if !ok {
			for _, l := range s.lent {
				if maphash.Bytes(sumSeed, l.payload) != l.sum {
					s.r.Errorf("%s: a payload changed within its Poll round", s.name)
				}
			}
			s.checkHeld()
			return
		}
		s.lent = append(s.lent, lent{e.Payload, maphash.Bytes(sumSeed, e.Payload)})
		s.handle(now, e)
	}
	s.r.Errorf("%s: Poll round did not end after %d events", s.name, maxRound)
}

// nextTimeout returns the next timeout of the Conn and the application; zero once the side is over.
func (s *side) nextTimeout() time.Time {
	if s.over || s.stopped {
		return time.Time{}
	}
	next := s.conn.NextTimeout()
	if !next.IsZero() {
		next = next.Add(s.late)
	}
	next = codec.Earliest(codec.Earliest(next, s.admitAt), s.greetAt)
	if len(s.plan) > 0 {
		next = codec.Earliest(next, s.plan[0].at)
	}
	return next
}
