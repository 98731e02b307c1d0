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
	if err := s.send(now, m.Payload); err != nil {
		return err
	}
	s.answer(now, m.Receipt)
	return nil
}

func (s *server) send(now time.Time, payload []byte) error {
	if len(payload) > 0 && payload[0] == announced {
		return s.sendAnnouncement(now, payload)
	}
	var in instruction
	if in.parseAlone(payload, &canonical, s.sizes) != nil {
		return errNoForm
	}
	s.takeOpener()
	hidden := s.hides(&in)
	if !hidden {
		if err := s.put(&in); err != nil {
			return err
		}
	}
	if s.options.Refresh > 0 {
		s.deleted.note(&in, &s.mirror)
	}
	s.mirror.apply(&in)
	if e := s.mirror.slotOf(in.entity); in.op == create && e != nil && !hidden {
		e.created = true
	}
	return nil
}

// sendAnnouncement stores the names of the components, and the facts of a format that is not known yet. It does not
// send names that the client already has.
func (s *server) sendAnnouncement(now time.Time, payload []byte) error {
	var a announcement
	if a.parse(payload) != nil {
		return errNoForm
	}
	s.decide(&a.format)
	s.format.learn(a.format)
	if s.initial.equal(&a.initial) {
		return nil
	}
	if !s.format.isFinal() {
		if err := s.putInitial(&a.initial); err != nil {
			return err
		}
	}
	if s.initial.known() { // messages before the first one may have overtaken it
		s.mirror, s.deleted = mirror{max: s.options.MaxWorld}, deletionLog{}
	}
	s.announce(a.initial)
	if s.format.isFinal() {
		s.sendNames(now)
	}
	return nil
}

// mayBeLast reports whether the client's opener may be the document's key or the last game's hello. The server's
// dialect decides.
func (s *server) mayBeLast() bool {
	return s.options.Dialect == Auto && s.format.document && len(s.opener) == 1 && s.opener[0] == openLobby
}

// decide makes a client that may be of the last game one if its server is.
func (s *server) decide(server *format) {
	if s.mayBeLast() && server.isFinal() {
		s.format, s.opener = formats[GameLast], nil
	}
	s.takeOpener()
}

// takeOpener reports the key that opened the session, if the client is not of the last game. Before Admit it waits.
func (s *server) takeOpener() {
	if s.opener == nil || s.state != connected {
		return
	}
	if s.mayBeLast() {
		s.events.Push(codec.Event{Kind: codec.Connected})
	}
	s.take(s.opener)
	s.opener = nil
}

// ResetWorld tells the client that another server has its session, or the same server after a restart. It deletes all
// entities. The components stay, because real clients learn them only once.
func (s *server) ResetWorld(time.Time) {
	for i := range s.mirror.slots {
		if e := &s.mirror.slots[i]; e.alive {
			in := instruction{op: remove, entity: e.entity}
			s.deleted.note(&in, &s.mirror)
			if !s.hides(&in) {
				_ = s.put(&in) // instructions without room are repeated
			}
		}
	}
	s.mirror = mirror{max: s.options.MaxWorld}
}

// putInitial queues the initialisation in the client's format.
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
	copies := s.options.Copies // as many as possible: their count must fit a byte
	for copies > 1 && n.countOf(copies) > maxComponents {
		copies--
	}
	if !s.hasRoom(n.parts(copies) * (recordHead + 2 + n.Pad)) {
		return codec.ErrFull
	}
	for i := range n.parts(copies) {
		s.out.end(n.appendPart(s.out.begin(), i, s.format.era, copies), true)
	}
	return nil
}

// again sends everything again, from the beginning, to a client that asks again.
func (s *server) again(now time.Time) {
	if !s.initial.known() || now.Sub(s.restored) < minReplayed || s.putInitial(&s.initial) != nil {
		return
	}
	s.restore(now)
}

// restore sends the client the world from the beginning.
func (s *server) restore(now time.Time) {
	s.restored = now
	s.mirror.forgetSent()
	s.replay = replay{whole: true, next: now}
}

func (s *server) scheduleRefresh(now time.Time) {
	s.replay = replay{}
	if s.options.Refresh > 0 {
		s.replay.next = now.Add(s.options.Refresh)
	}
}

// A deletion is repeated with maxRepeats refreshes. The last maxDeletions of them are remembered.
const (
	maxDeletions = 1024
	maxRepeats   = 3
)

// deletionLog remembers the latest removes and detaches, so that a refresh can repeat them. Its ring is allocated with
// the first.
type deletionLog struct {
	ring []deletion `cbor:"12,keyasint,omitempty"`
	next int        `cbor:"13,keyasint,omitempty"`
}

type deletion struct {
	_         struct{} `cbor:",toarray"`
	Op        opcode   // remove or detach
	Entity    uint32
	Component uint16
	Repeats   int // repeats left
}

// note records the deletion that an instruction is about to make in m. An entity's components are deleted with it. A
// client that misses the deletion must lose them when the entity is created again.
func (g *deletionLog) note(in *instruction, m *mirror) {
	switch in.op {
	case remove:
		g.add(deletion{Op: remove, Entity: in.entity})
		if s := m.slotOf(in.entity); s != nil {
			for i := range s.components {
				g.add(deletion{Op: detach, Entity: in.entity, Component: s.components[i].id})
			}
		}
	case detach:
		g.add(deletion{Op: detach, Entity: in.entity, Component: in.component})
	}
}

func (g *deletionLog) add(d deletion) {
	if len(g.ring) == 0 {
		g.ring = make([]deletion, maxDeletions)
	}
	d.Repeats = maxRepeats
	g.ring[g.next] = d
	g.next = (g.next + 1) % maxDeletions
}

// take returns the i-th deletion if it is to be repeated: a limited number of times, and only while it holds. There is
// no need to delete an object that exists again, or a component of an entity that does not exist.
func (g *deletionLog) take(i int, m *mirror) (instruction, bool) {
	d := &g.ring[i]
	holds := m.has(d.Entity) == (d.Op == detach) && !m.hasComponent(d.Entity, d.Component)
	if d.Repeats == 0 || !holds {
		return instruction{}, false
	}
	d.Repeats--
	return instruction{op: d.Op, entity: d.Entity, component: d.Component}, true
}
