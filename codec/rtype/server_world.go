package rtype

import (
	"time"

	"tidegate/codec"
)

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
	if s.options.Refresh > 0 {
		s.gone.note(&in, &s.mirror)
	}
	s.mirror.apply(&in)
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
	s.mirror, s.gone = mirror{max: s.options.MaxWorld}, gone{}
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

// restore tells a client that asks again all it has to know, from the beginning.
func (s *server) restore(now time.Time) {
	if !s.initial.known() || now.Sub(s.restored) < minReplayed || s.putInitial(&s.initial) != nil {
		return
	}
	s.restored = now
	s.replay.begin(now)
}

// replayPortion queues the next of what the client should know, as far as there is room.
func (s *server) replayPortion(now time.Time) {
	if s.replay.portion(&s.link, &s.mirror, &s.gone) {
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
