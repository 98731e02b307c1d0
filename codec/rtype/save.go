package rtype

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const savedVersion = 1

var _ = record.Register[savedConn](savedVersion, names[:]...)

// savedConn is a connection as a record. Its kind is the protocol's name. It has a server's part or a client's. The
// options are not part of it.
type savedConn struct {
	record.Head
	*link
	Initial *initialisation `cbor:"8,keyasint,omitempty"` // none: unknown
	Out     []byte          `cbor:"11,keyasint,omitempty"`
	Server  *savedServer    `cbor:"13,keyasint,omitempty"`
	Client  *savedClient    `cbor:"14,keyasint,omitempty"`
}

type savedClient struct {
	*client
	Refusals []uint16 `cbor:"4,keyasint,omitempty"`
	Server   string   `cbor:"12,keyasint,omitempty"` // its address
}

// savedServer is the part of a server's side.
type savedServer struct {
	*server
	Slots []savedSlot `cbor:"9,keyasint,omitempty"`
	Free  []int       `cbor:"10,keyasint,omitempty"`
}

// savedSlot is a slot of the mirror. Memory for reuse counts in the mirror's bound, so its size is saved too.
type savedSlot struct {
	slot
	Components []savedComponent `cbor:"5,keyasint,omitempty"` // also the places behind those in use
	Used       int              `cbor:"6,keyasint,omitempty"`
}

type savedComponent struct {
	_ struct{} `cbor:",toarray"`
	component
	Room int // bytes
}

// Save implements codec.Conn.
func (s *server) Save(now time.Time, b []byte) []byte {
	v := s.save()
	v.Server = &savedServer{server: s, Free: s.mirror.free}
	for i := range s.mirror.slots {
		v.Server.Slots = append(v.Server.Slots, s.mirror.slots[i].save())
	}
	return record.AppendAt(now, b, &v)
}

// Save implements codec.Conn.
func (c *client) Save(now time.Time, b []byte) []byte {
	v := c.save()
	v.Client = &savedClient{client: c, Refusals: c.lobby.refusals[:c.lobby.refused]}
	if c.server.IsValid() {
		v.Client.Server = c.server.String()
	}
	return record.AppendAt(now, b, &v)
}

func (l *link) save() savedConn {
	v := savedConn{
		Head: record.Head{Kind: names[l.options.Dialect], Version: savedVersion}, link: l, Out: l.out.log[l.out.read:],
	}
	if l.initial.known() {
		v.Initial = &l.initial
	}
	return v
}

func (s *slot) save() savedSlot {
	v := savedSlot{slot: *s, Used: len(s.components)}
	for i, c := range s.components[:cap(s.components)] {
		one := savedComponent{Room: cap(c.data)}
		if i < len(s.components) {
			one.component = c
		}
		v.Components = append(v.Components, one)
	}
	return v
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	l := newLink(&p.options, now)
	v := savedConn{link: &l}
	if err := saved.ReadAt(now, b, p.spec.Name, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(&p.options); err != nil {
		return nil, err
	}
	l.out.log = v.Out
	if i := v.Initial; i != nil {
		if i.Names == nil {
			i.Names = [][]byte{}
		}
		l.announce(*i)
	}
	if v.Server != nil {
		v.Server.link = l
		if err := v.Server.restore(); err != nil {
			return nil, err
		}
		return v.Server.server, nil
	}
	v.Client.link = l
	return v.Client.restore(), nil
}

func (v *savedClient) restore() *client {
	c := v.client
	c.server, _ = netip.ParseAddrPort(v.Server) // none in the records of older releases
	c.lobby.refused = copy(c.lobby.refusals[:], v.Refusals)
	g := &c.gather
	if len(g.Names) > 0 {
		g.held = maxComponents * nameCost
		for i, name := range g.Names {
			if g.held += len(name); len(name) == 0 {
				g.Names[i] = nil
			}
		}
	} else {
		g.Names = nil
	}
	return c
}

// check holds a record to the bounds of a connection.
func (v *savedConn) check(o *Options) error {
	switch {
	case v.state > closed:
		return saved.Fault("state", v.state)
	case v.format.era > Final || v.format.width != 0 && v.format.width != 2 && v.format.width != 4:
		return saved.Fault("format", v.format.width)
	case (v.Server == nil) == (v.Client == nil):
		return saved.Fault("number of sides", v.Server != nil)
	case len(v.Out) > o.MaxQueued+recordHead+maxDatagram || !isLog(v.Out):
		return saved.Fault("log of waiting messages", len(v.Out))
	}
	if i := v.Initial; i != nil {
		if len(i.Names) > maxComponents || i.Pad < 0 || i.Pad > maxName || i.Count < 0 || i.Count > maxComponents {
			return saved.Fault("number of components", len(i.Names))
		}
		for _, name := range i.Names {
			if len(name) > i.Pad {
				return saved.Fault("length of a name", len(name))
			}
		}
	}
	if c := v.Client; c != nil {
		g := &c.gather
		switch {
		case c.hellos < 0 || c.hellos > o.MaxHellos || len(c.Refusals) > maxRefusals:
			return saved.Fault("number of hellos", c.hellos)
		case len(g.Names) > 0 && len(g.Names) != maxComponents:
			return saved.Fault("number of gathered names", len(g.Names))
		case g.Era > Final || g.Count < 0 || g.Count > maxComponents || g.Pad < 0 || g.Pad > maxName:
			return saved.Fault("gathered initialisation", g.Count)
		}
		for _, name := range g.Names {
			if len(name) > maxName {
				return saved.Fault("length of a name", len(name))
			}
		}
	}
	return nil
}

// isLog reports whether b is the log of an outbox, with whole messages.
func isLog(b []byte) bool {
	for len(b) > 0 {
		if len(b) < recordHead {
			return false
		}
		n := int(le.Uint16(b) &^ last)
		if n == 0 || n > maxDatagram || recordHead+n > len(b) {
			return false
		}
		b = b[recordHead+n:]
	}
	return true
}

// restore brings a server of a record to its state, within the bounds of its options.
func (v *savedServer) restore() error {
	s := v.server
	s.bound()
	if err := saved.Duration("round-trip time", s.pinger.rtt); err != nil {
		return err
	}
	if err := s.mirror.restore(v); err != nil {
		return err
	}
	if err := s.deleted.check(); err != nil {
		return err
	}
	all := len(s.mirror.slots)
	if s.replay.stage == deletions {
		all = len(s.deleted.ring)
	}
	if s.replay.stage > replayed || s.replay.at < 0 || s.replay.at > all || len(s.opener) > maxDatagram {
		return saved.Fault("place of the replay", s.replay.at)
	}
	return nil
}

// restore brings an empty mirror to a saved state, within its bound.
func (m *mirror) restore(v *savedServer) error {
	for i := range v.Slots {
		if err := m.restoreSlot(&v.Slots[i]); err != nil {
			return err
		}
	}
	freed := make([]bool, len(m.slots))
	for _, at := range v.Free {
		if at < 0 || at >= len(m.slots) || m.slots[at].alive || freed[at] {
			return saved.Fault("free slot", at)
		}
		freed[at] = true
		m.free = append(m.free, at)
	}
	if len(m.free)+len(m.where) != len(m.slots) {
		return saved.Fault("number of entities", len(m.where))
	}
	return nil
}

func (m *mirror) restoreSlot(v *savedSlot) error {
	room := len(v.Components) * componentCost
	for i := range v.Components {
		c := &v.Components[i]
		if c.Room < 0 || c.Room > maxDatagram || len(c.data) > c.Room {
			return saved.Fault("room of a component", c.Room)
		}
		room += c.Room
	}
	overflowed := m.overflowed
	if v.Used < 0 || v.Used > len(v.Components) || !m.grow(slotCost+room) {
		return saved.Fault("size of the mirror", len(m.slots))
	}
	m.overflowed = overflowed
	s := v.slot
	if len(v.Components) > 0 {
		s.components = make([]component, 0, len(v.Components))
	}
	for i := range v.Components {
		c := &v.Components[i]
		one := c.component
		one.data = nil
		if c.Room > 0 {
			one.data = append(make([]byte, 0, c.Room), c.data...)
		}
		s.components = append(s.components, one)
	}
	s.components = s.components[:v.Used]
	if s.alive {
		if m.where == nil {
			m.where = make(map[uint32]int)
		}
		if _, twice := m.where[s.entity]; twice {
			return saved.Fault("entity", s.entity)
		}
		m.where[s.entity] = len(m.slots)
	}
	m.slots = append(m.slots, s)
	return nil
}

func (g *deletionLog) check() error {
	if len(g.ring) > 0 && len(g.ring) != maxDeletions || g.next < 0 || g.next >= maxDeletions {
		return saved.Fault("number of deletions", len(g.ring))
	}
	for _, d := range g.ring {
		if d.Repeats < 0 || d.Repeats > maxRepeats || d.Repeats > 0 && d.Op != remove && d.Op != detach {
			return saved.Fault("deletion", d.Op)
		}
	}
	return nil
}
