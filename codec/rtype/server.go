package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// decideTimeout is how long a client that waits for Admit may be silent: one that waits repeats its Hello.
const decideTimeout = 10 * time.Second

// server is the side of a connection that faces a client.
type server struct {
	link
	opener   []byte // the document's instruction that opened the session, until it is reported
	rate     rate
	pulse    pulse
	mirror   mirror
	gone     gone
	replay   replay
	restored time.Time // when a client that asked again was last told the state of its world
	pingDue  bool
	byeDue   bool
}

func accept(o *Options, now time.Time, f format, opener []byte) *server {
	s := &server{
		link:   newLink(o, now),
		opener: opener,
		rate:   rate{perSecond: o.MaxRate},
		pulse:  pulse{interval: o.PingInterval, timeout: o.PongTimeout},
		mirror: mirror{max: o.MaxWorld},
	}
	s.format = f
	s.stats.Received = 1
	s.events.push(codec.Event{Kind: codec.Asked})
	return s
}

// Admit makes the session. What was sent so far goes out.
func (s *server) Admit(now time.Time, _ uint16) {
	if s.state != opening {
		return
	}
	s.connect(now)
	if s.opener != nil {
		s.take(s.opener)
	}
	if !s.format.document {
		s.pulse.start(now)
	}
	s.scheduleRefresh(now)
}

// Send queues a canonical message: an instruction or an announcement.
func (s *server) Send(now time.Time, m codec.Message) error {
	if err := s.check(&m); err != nil {
		return err
	}
	if err := s.send(m.Payload); err != nil {
		return err
	}
	s.answer(now, m.Receipt)
	return nil
}

func (s *server) send(payload []byte) error {
	if len(payload) > 0 && payload[0] == announced {
		return s.sendAnnouncement(payload)
	}
	var in instruction
	if in.parseAlone(payload, &canonical, s.sizes) != nil {
		return errNoForm
	}
	if err := s.put(&in); err != nil {
		return err
	}
	s.mirror.apply(&in)
	if s.options.Refresh > 0 {
		s.gone.note(&in)
	}
	return nil
}

// sendAnnouncement takes the names of the components, and whatever it tells of a format that is not known yet. Names
// that are the client's already are not sent again.
func (s *server) sendAnnouncement(payload []byte) error {
	var a announcement
	if a.parse(payload) != nil {
		return errNoForm
	}
	s.format.learn(a.format)
	if s.initial.equal(&a.initial) {
		return nil
	}
	if err := s.putInitial(&a.initial); err != nil {
		return err
	}
	s.announce(a.initial)
	s.mirror = mirror{max: s.options.MaxWorld}
	return nil
}

// putInitial queues the initialisation in the client's spelling.
func (s *server) putInitial(n *initialisation) error {
	if s.format.document {
		switch {
		case n.len() > maxDatagram:
			return codec.ErrTooLarge
		case !s.hasRoom(n.len()):
			return codec.ErrFull
		}
		s.out.end(n.append(s.out.begin()), true)
		return nil
	}
	if !s.hasRoom(n.parts() * (recordHead + 2 + maxName)) {
		return codec.ErrFull
	}
	for i := range n.parts() {
		s.out.end(n.appendPart(s.out.begin(), i, s.format.era), true)
	}
	return nil
}

// Receive takes one datagram of the client's.
func (s *server) Receive(now time.Time, datagram []byte) error {
	s.scratch = s.scratch[:0]
	return s.count(s.receive(now, datagram))
}

func (s *server) receive(now time.Time, d []byte) error {
	isHello := !s.format.document && bytes.Equal(d, s.options.Hello)
	switch {
	case s.state == opening && isHello:
		s.heard = now
		return codec.ErrDuplicate
	case s.state != connected:
		return codec.ErrUnexpected
	case isHello:
		s.restore(now)
	case s.format.document:
		return s.receiveKeys(now, d)
	case bytes.Equal(d, pong):
		s.pulse.answered(now)
	default:
		return s.receiveInput(now, d)
	}
	s.hear(now)
	return nil
}

// restore tells a client that asks again all it has to know, from the beginning.
func (s *server) restore(now time.Time) {
	if !s.initial.known() || now.Sub(s.restored) < minReplayed || s.putInitial(&s.initial) != nil {
		return
	}
	s.restored = now
	s.replay.begin(now)
}

// receiveKeys takes a datagram of the document's, whose instructions are a byte each.
func (s *server) receiveKeys(now time.Time, d []byte) error {
	for i, key := range d {
		switch {
		case key > maxKey:
			return errOpcode
		case !s.rate.allow(now):
			return errRate
		}
		s.hear(now)
		s.take(d[i : i+1])
	}
	return nil
}

// receiveInput takes a datagram of the game's: a lone byte, or an update.
func (s *server) receiveInput(now time.Time, d []byte) error {
	var in instruction
	var lone byte
	var err error
	if len(d) == 1 {
		lone, err = inputOf(d[0], &s.format)
	} else if err = in.parseAlone(d, &s.format, s.sizes); err == nil && in.op != update {
		err = errOpcode
	}
	if err != nil {
		return err
	}
	if !s.rate.allow(now) {
		return errRate
	}
	s.hear(now)
	if len(d) == 1 {
		s.takeByte(lone)
	} else {
		s.takeInstruction(&in, d)
	}
	return nil
}

func (s *server) hear(now time.Time) {
	s.heard = now
	s.pulse.heard()
}

// Advance runs what is due: time-outs, pings and replays.
func (s *server) Advance(now time.Time) {
	if s.state == closed {
		return
	}
	if !now.Before(s.deadline()) {
		s.lose(codec.TimedOut)
		return
	}
	if s.pulse.beat(now) {
		s.pingDue = true
	}
	if next := s.replay.next; !next.IsZero() && !now.Before(next) {
		s.replayPortion(now)
	}
}

// replayPortion queues the next of what the client should know, as far as there is room.
func (s *server) replayPortion(now time.Time) {
	if s.replay.portion(&s.mirror, &s.gone, func(in *instruction) bool { return s.put(in) != codec.ErrFull }) {
		s.scheduleRefresh(now)
		return
	}
	s.replay.next = now.Add(portionGap)
}

func (s *server) scheduleRefresh(now time.Time) {
	s.replay = replay{}
	if s.options.Refresh > 0 {
		s.replay.next = now.Add(s.options.Refresh)
	}
}

// deadline is when the client's silence ends the connection.
func (s *server) deadline() time.Time {
	if s.state == opening {
		return s.heard.Add(decideTimeout)
	}
	return earliest(s.heard.Add(s.options.IdleTimeout), s.pulse.deadline())
}

// NextTimeout is when Advance has something to do, or Poll a receipt.
func (s *server) NextTimeout() time.Time {
	if s.state == closed {
		return time.Time{}
	}
	next := earliest(s.deadline(), earliest(s.pulse.next, s.replay.next))
	if s.events.waiting() > 0 {
		next = earliest(next, s.answerAt)
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

// Close says goodbye, for which the document has no word. The reason and its data are not of this protocol.
func (s *server) Close(_ time.Time, why codec.Goodbye) {
	if s.state == closed {
		return
	}
	s.pingDue, s.byeDue = false, !s.format.document
	s.finish(why.Reason)
}

// Stats are the connection's figures so far.
func (s *server) Stats() codec.Stats {
	stats := s.link.Stats()
	stats.RTT = s.pulse.rtt
	return stats
}
