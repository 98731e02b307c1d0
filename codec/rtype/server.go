package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// decideTimeout is how long a client that waits for Admit may be silent. A waiting client repeats its Hello.
const decideTimeout = 10 * time.Second

// server is the side of a connection that faces a client.
type server struct {
	link     `cbor:"-"`
	opener   []byte      `cbor:"1,keyasint,omitempty"` // the document's first instruction, until it is reported
	lobby    lobby       `cbor:"2,keyasint,omitempty"` // for the last game
	secret   secret      `cbor:"3,keyasint,omitempty" secret:"true"`
	rate     rate        `record:"inline"`
	pinger   pinger      `record:"inline"`
	mirror   mirror      `record:"inline"`
	deleted  deletionLog `record:"inline"`
	replay   replay      `record:"inline"`
	restored time.Time   `cbor:"18,keyasint,omitempty"` // when the client was last sent the whole world
	pingDue  bool        `cbor:"19,keyasint,omitempty"`
	byeDue   bool        `cbor:"20,keyasint,omitempty"`
}

func accept(o *Options, now time.Time, f format, opener []byte, secret secret) *server {
	s := &server{
		link:   newLink(o, now),
		opener: opener,
		secret: secret,
	}
	s.bound()
	s.format, s.mask = f, secret.mask
	s.stats.Received = 1
	s.events.Push(codec.Event{Kind: codec.Asked})
	return s
}

// bound takes the bounds of the options.
func (s *server) bound() {
	o := s.options
	s.rate.perSecond, s.mirror.max = o.MaxRate, o.MaxWorld
	s.pinger.interval, s.pinger.timeout = o.PingInterval, o.PongTimeout
}

// Admit starts the session. The queued messages are sent.
func (s *server) Admit(now time.Time, _ uint16) {
	if s.state != opening {
		return
	}
	s.state, s.heard, s.restored = connected, now, now
	switch {
	case s.format.isFinal() && s.secret.awaits(0):
		s.sendNames(now) // the components of the secret
	case !s.format.isFinal() && !s.mayBeLast():
		s.events.Push(codec.Event{Kind: codec.Connected})
	}
	if s.opener != nil && !s.mayBeLast() {
		s.takeOpener()
	}
	if !s.format.document {
		s.pinger.start(now)
	}
	s.scheduleRefresh(now)
}

// Advance does the work that is due: time-outs, pings and replays.
func (s *server) Advance(now time.Time) {
	if s.state == closed {
		return
	}
	if !now.Before(s.deadline()) {
		s.out.drop()
		s.Close(now, codec.Goodbye{Reason: codec.TimedOut})
		return
	}
	if s.pinger.takeDue(now) {
		s.pingDue = true
	}
	s.lobbyDue(now)
	if next := s.replay.next; !next.IsZero() && !now.Before(next) {
		if s.replay.portion(s) {
			s.scheduleRefresh(now)
		} else {
			s.replay.next = now.Add(portionGap)
		}
	}
}

// deadline returns when the client's silence ends the connection.
func (s *server) deadline() time.Time {
	switch {
	case s.state == opening:
		return s.heard.Add(decideTimeout)
	case s.format.isFinal() && !s.lobby.started:
		return codec.Earliest(s.heard.Add(lobbyTimeout), s.pinger.deadline())
	}
	return codec.Earliest(s.heard.Add(s.options.IdleTimeout), s.pinger.deadline())
}

// NextTimeout returns when Advance has work again, or Poll a receipt.
func (s *server) NextTimeout() time.Time {
	if s.state == closed {
		return time.Time{}
	}
	next := codec.Earliest(s.deadline(), codec.Earliest(s.pinger.next, s.replay.next))
	next = codec.Earliest(next, s.lobby.next)
	if s.events.Len() > 0 {
		next = codec.Earliest(next, s.answerAt)
	}
	return next
}

// Transmit appends the next datagram to b.
func (s *server) Transmit(_ time.Time, b []byte) ([]byte, bool) {
	if s.state == opening {
		return b, false
	}
	b, ok := s.out.next(b)
	switch {
	case !ok && s.pingDue:
		s.pingDue = false
		b, ok = append(b, ping...), true
	case !ok && s.byeDue:
		s.byeDue = false
		b, ok = append(b, goodbye...), true
	}
	if ok {
		s.stats.Sent++
	}
	return b, ok
}

// Close says goodbye, if the dialect has a goodbye; the document has none. The protocol carries neither reason nor
// data.
func (s *server) Close(_ time.Time, why codec.Goodbye) {
	if s.state == closed {
		return
	}
	s.pingDue, s.byeDue = false, !s.format.document
	s.finish(why.Reason)
}

// Proved reports whether the client has echoed a secret that only its address received.
func (s *server) Proved() bool { return s.secret.proved }

// Stats returns the connection's figures so far.
func (s *server) Stats() codec.Stats {
	stats := s.link.Stats()
	stats.RTT = s.pinger.rtt
	if s.state != closed {
		stats.Kept = s.mirror.bytes
	}
	return stats
}

var (
	_ codec.Holder        = (*server)(nil)
	_ codec.Echoer        = (*server)(nil)
	_ codec.WorldResetter = (*server)(nil)
)

// Release implements codec.Holder. The world is forgotten, and not kept any more.
func (s *server) Release() {
	s.mirror, s.deleted = mirror{}, deletionLog{}
}

// Receive takes one datagram of the client.
func (s *server) Receive(now time.Time, datagram []byte) error {
	s.scratch = s.scratch[:0]
	return s.stats.Count(s.receive(now, datagram))
}

func (s *server) receive(now time.Time, d []byte) error {
	isHello := !s.format.document && !s.format.isFinal() && bytes.Equal(d, s.options.Hello)
	switch {
	case len(d) == 0:
		return errLength
	case s.state == opening && (isHello || s.format.isFinal() && bytes.Equal(d, lastHello)):
		s.heard = now
		return codec.ErrDuplicate
	case s.state != connected:
		return codec.ErrUnexpected
	case isHello && s.secret.isFresh(now):
		return codec.ErrDuplicate
	case isHello:
		s.again(now)
	case s.format.document:
		return s.receiveKeys(now, d)
	case bytes.Equal(d, pong):
		s.pinger.answered(now)
	case s.format.isFinal() && opcode(d[0]) != update:
		return s.receiveLobby(now, d)
	default:
		return s.receiveInput(now, d)
	}
	s.markHeard(now)
	return nil
}

// receiveKeys handles a datagram of the document. Each of its instructions is one byte.
func (s *server) receiveKeys(now time.Time, d []byte) error {
	for i, key := range d {
		switch {
		case key > maxKey:
			return errOpcode
		case !s.rate.allow(now):
			return errRate
		}
		s.markHeard(now)
		s.takeOpener()
		s.take(d[i : i+1])
	}
	return nil
}

// receiveInput handles a datagram of the game: a key or an update.
func (s *server) receiveInput(now time.Time, d []byte) error {
	if len(d) == 1 {
		return s.receiveKey(now, d)
	}
	var in instruction
	if err := in.parseAlone(d, &s.format, s.sizes); err != nil {
		return err
	}
	switch {
	case in.op != update:
		return errOpcode
	case s.format.isFinal() && !s.lobby.started, s.sizes == nil && len(s.options.Components) > 0:
		return codec.ErrUnexpected
	}
	if !s.rate.allow(now) {
		return errRate
	}
	in.entity = s.masked(in.entity)
	known := s.mirror.markOwn(&in)
	switch {
	case s.mask == 0 || s.format.width != 4: // what it was sent is not known to have such numbers
	case known:
		s.secret.prove(now)
	case !s.mirror.overflowed:
		return errEntity
	}
	s.markHeard(now)
	s.takeInstruction(&in, d)
	return nil
}

func (s *server) receiveKey(now time.Time, d []byte) error {
	switch {
	case !s.format.hasKeys() || d[0] > maxKey:
		return errOpcode
	case !s.rate.allow(now):
		return errRate
	}
	s.markHeard(now)
	s.take(d)
	return nil
}

func (s *server) markHeard(now time.Time) {
	s.heard = now
	s.pinger.heard()
}

// rate lets perSecond messages pass per second, or at once after a second of silence.
type rate struct {
	perSecond int
	next      time.Time `cbor:"4,keyasint,omitempty"` // when the messages so far would have been due at an even rate
}

// allow reports whether one more message may pass now.
func (r *rate) allow(now time.Time) bool {
	if r.next.Before(now) {
		r.next = now
	}
	every := time.Second / time.Duration(r.perSecond)
	if r.next.Sub(now) > time.Second-every {
		return false
	}
	r.next = r.next.Add(every)
	return true
}
