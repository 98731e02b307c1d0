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
	State    state           `cbor:"3,keyasint"`
	Document bool            `cbor:"4,keyasint,omitempty"`
	Era      Era             `cbor:"5,keyasint,omitempty"`
	Width    uint8           `cbor:"6,keyasint,omitempty"`
	Mask     uint32          `cbor:"7,keyasint,omitempty"`
	Initial  *initialisation `cbor:"8,keyasint,omitempty"` // none: unknown
	Heard    record.Moment   `cbor:"9,keyasint,omitempty"`
	AnswerAt record.Moment   `cbor:"10,keyasint,omitempty"`
	Out      []byte          `cbor:"11,keyasint,omitempty"`
	Stats    saved.Stats     `cbor:"12,keyasint"`
	Server   *savedServer    `cbor:"13,keyasint,omitempty"`
	Client   *savedClient    `cbor:"14,keyasint,omitempty"`
}

type savedClient struct {
	Hellos    int           `cbor:"1,keyasint,omitempty"`
	NextHello record.Moment `cbor:"2,keyasint,omitempty"`
	Gather    gather        `cbor:"3,keyasint,omitempty"`
	Refusals  []uint16      `cbor:"4,keyasint,omitempty"`
	StartDue  bool          `cbor:"5,keyasint,omitempty"`
	StartedAt record.Moment `cbor:"6,keyasint,omitempty"`
	HelloDue  bool          `cbor:"7,keyasint,omitempty"`
	PongDue   bool          `cbor:"8,keyasint,omitempty"`
	Odd       bool          `cbor:"9,keyasint,omitempty"`
	Held      bool          `cbor:"10,keyasint,omitempty"`
	Frames    bool          `cbor:"11,keyasint,omitempty"`
	Server    string        `cbor:"12,keyasint,omitempty"` // its address
}

// Save implements codec.Conn.
func (s *server) Save(now time.Time, b []byte) []byte {
	v := s.link.save(now)
	v.Server = s.save(now)
	return record.Append(b, &v)
}

// Save implements codec.Conn.
func (c *client) Save(now time.Time, b []byte) []byte {
	v := c.save(now)
	v.Client = &savedClient{
		Hellos: c.hellos, NextHello: record.MomentOf(now, c.nextHello), HelloDue: c.helloDue, PongDue: c.pongDue,
		Gather: c.gather, Refusals: c.lobby.refusals[:c.lobby.refused], StartDue: c.lobby.startDue,
		StartedAt: record.MomentOf(now, c.lobby.startedAt), Odd: c.odd, Held: c.held, Frames: c.frames,
	}
	if c.server.IsValid() {
		v.Client.Server = c.server.String()
	}
	return record.Append(b, &v)
}

func (l *link) save(now time.Time) savedConn {
	v := savedConn{
		Head:  record.Head{Kind: names[l.options.Dialect], Version: savedVersion},
		State: l.state, Document: l.format.document, Era: l.format.era, Width: l.format.width, Mask: l.mask,
		Heard: record.MomentOf(now, l.heard), AnswerAt: record.MomentOf(now, l.answerAt),
		Out: l.out.log[l.out.read:], Stats: saved.StatsOf(&l.stats),
	}
	if l.initial.known() {
		v.Initial = &l.initial
	}
	return v
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	var v savedConn
	if err := saved.Read(b, p.spec.Name, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(&p.options); err != nil {
		return nil, err
	}
	l := newLink(&p.options, v.Heard.Time(now))
	l.state, l.format, l.mask = v.State, format{document: v.Document, era: v.Era, width: v.Width}, v.Mask
	l.answerAt, l.out.log, l.stats = v.AnswerAt.Time(now), v.Out, v.Stats.Restore()
	if i := v.Initial; i != nil {
		if i.Names == nil {
			i.Names = [][]byte{}
		}
		l.announce(*i)
	}
	if v.Server != nil {
		server, err := v.Server.restore(now, l)
		if err != nil {
			return nil, err
		}
		return server, nil
	}
	return v.Client.restore(now, l), nil
}

func (v *savedClient) restore(now time.Time, l link) *client {
	g := &v.Gather
	c := &client{
		link: l, hellos: v.Hellos, nextHello: v.NextHello.Time(now), helloDue: v.HelloDue, pongDue: v.PongDue,
		gather: *g,
		lobby:  clientLobby{refused: len(v.Refusals), startDue: v.StartDue, startedAt: v.StartedAt.Time(now)},
		odd:    v.Odd, held: v.Held, frames: v.Frames,
	}
	c.server, _ = netip.ParseAddrPort(v.Server) // none in the records of older releases
	copy(c.lobby.refusals[:], v.Refusals)
	if len(g.Names) > 0 {
		c.gather.held = maxComponents * nameCost
		for i, name := range g.Names {
			if c.gather.held += len(name); len(name) == 0 {
				c.gather.Names[i] = nil
			}
		}
	} else {
		c.gather.Names = nil
	}
	return c
}

// check holds a record to the bounds of a connection.
func (v *savedConn) check(o *Options) error {
	switch {
	case v.State > closed:
		return saved.Fault("state", v.State)
	case v.Era > Final || v.Width != 0 && v.Width != 2 && v.Width != 4:
		return saved.Fault("format", v.Width)
	case (v.Server == nil) == (v.Client == nil):
		return saved.Fault("side", v.Server)
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
		g := &c.Gather
		switch {
		case c.Hellos < 0 || c.Hellos > o.MaxHellos || len(c.Refusals) > maxRefusals:
			return saved.Fault("number of hellos", c.Hellos)
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

// savedServer is the part of a server's side.
type savedServer struct {
	Opener    []byte        `cbor:"1,keyasint,omitempty"`
	Lobby     savedLobby    `cbor:"2,keyasint,omitempty"`
	Secret    savedSecret   `cbor:"3,keyasint,omitempty" secret:"true"`
	RateNext  record.Moment `cbor:"4,keyasint,omitempty"`
	Ping      record.Moment `cbor:"5,keyasint,omitempty"`
	OwedSince record.Moment `cbor:"6,keyasint,omitempty"`
	TimedAt   record.Moment `cbor:"7,keyasint,omitempty"`
	RTT       time.Duration `cbor:"8,keyasint,omitempty"`
	Slots     []savedSlot   `cbor:"9,keyasint,omitempty"`
	Free      []int         `cbor:"10,keyasint,omitempty"`
	Overflow  bool          `cbor:"11,keyasint,omitempty"`
	Deleted   []deletion    `cbor:"12,keyasint,omitempty"`
	DeletedAt int           `cbor:"13,keyasint,omitempty"`
	Whole     bool          `cbor:"14,keyasint,omitempty"`
	Stage     stage         `cbor:"15,keyasint,omitempty"`
	At        int           `cbor:"16,keyasint,omitempty"`
	Replay    record.Moment `cbor:"17,keyasint,omitempty"`
	Restored  record.Moment `cbor:"18,keyasint,omitempty"`
	PingDue   bool          `cbor:"19,keyasint,omitempty"`
	ByeDue    bool          `cbor:"20,keyasint,omitempty"`
}

type savedLobby struct {
	Arrived bool          `cbor:"1,keyasint,omitempty"`
	Started bool          `cbor:"2,keyasint,omitempty"`
	Heard   bool          `cbor:"3,keyasint,omitempty"`
	Sent    int           `cbor:"4,keyasint,omitempty"`
	Rounds  int           `cbor:"5,keyasint,omitempty"`
	Next    record.Moment `cbor:"6,keyasint,omitempty"`
	Ignored [4]uint64     `cbor:"7,keyasint,omitempty"`
}

type savedSecret struct {
	Mask    uint32        `cbor:"1,keyasint,omitempty"`
	Indexes [2]uint16     `cbor:"2,keyasint,omitempty"`
	Heard   [2]bool       `cbor:"3,keyasint,omitempty"`
	Proved  bool          `cbor:"4,keyasint,omitempty"`
	At      record.Moment `cbor:"5,keyasint,omitempty"`
}

// savedSlot is a slot of the mirror. Memory for reuse counts in the mirror's bound, so its size is saved too.
type savedSlot struct {
	Entity     uint32           `cbor:"1,keyasint,omitempty"`
	Alive      bool             `cbor:"2,keyasint,omitempty"`
	Created    bool             `cbor:"3,keyasint,omitempty"`
	Repeats    uint8            `cbor:"4,keyasint,omitempty"`
	Components []savedComponent `cbor:"5,keyasint,omitempty"` // also the places behind those in use
	Used       int              `cbor:"6,keyasint,omitempty"`
}

type savedComponent struct {
	_                 struct{} `cbor:",toarray"`
	ID                uint16
	Known, Fresh, Own bool
	Repeats           uint8
	Data              []byte
	Room              int // bytes
}

func (s *server) save(now time.Time) *savedServer {
	l, k := &s.lobby, &s.secret
	v := &savedServer{
		Opener: s.opener,
		Lobby: savedLobby{
			Arrived: l.arrived, Started: l.started, Heard: l.heard, Sent: l.sent, Rounds: l.rounds,
			Next: record.MomentOf(now, l.next), Ignored: l.ignored,
		},
		Secret: savedSecret{
			Mask: k.mask, Indexes: k.indexes, Heard: k.heard, Proved: k.proved, At: record.MomentOf(now, k.at),
		},
		RateNext: record.MomentOf(now, s.rate.next), Ping: record.MomentOf(now, s.pinger.next),
		OwedSince: record.MomentOf(now, s.pinger.owedSince), TimedAt: record.MomentOf(now, s.pinger.timedAt),
		RTT: s.pinger.rtt, Free: s.mirror.free, Overflow: s.mirror.overflowed, Deleted: s.deleted.ring,
		DeletedAt: s.deleted.next,
		Whole:     s.replay.whole, Stage: s.replay.stage, At: s.replay.at, Replay: record.MomentOf(now, s.replay.next),
		Restored: record.MomentOf(now, s.restored), PingDue: s.pingDue, ByeDue: s.byeDue,
	}
	for i := range s.mirror.slots {
		v.Slots = append(v.Slots, s.mirror.slots[i].save())
	}
	return v
}

func (s *slot) save() savedSlot {
	v := savedSlot{Entity: s.entity, Alive: s.alive, Created: s.created, Repeats: s.repeats, Used: len(s.components)}
	for i, c := range s.components[:cap(s.components)] {
		one := savedComponent{Room: cap(c.data)}
		if i < len(s.components) {
			one = savedComponent{
				ID: c.id, Known: c.known, Fresh: c.fresh, Own: c.own, Repeats: c.repeats, Data: c.data, Room: cap(c.data),
			}
		}
		v.Components = append(v.Components, one)
	}
	return v
}

func (v *savedServer) restore(now time.Time, l link) (*server, error) {
	s := accept(l.options, now, l.format, v.Opener, secret{
		mask: v.Secret.Mask, indexes: v.Secret.Indexes, heard: v.Secret.Heard, proved: v.Secret.Proved,
		at: v.Secret.At.Time(now),
	})
	s.link = l
	s.lobby = lobby{
		arrived: v.Lobby.Arrived, started: v.Lobby.Started, heard: v.Lobby.Heard, sent: v.Lobby.Sent,
		rounds: v.Lobby.Rounds, next: v.Lobby.Next.Time(now), ignored: v.Lobby.Ignored,
	}
	s.rate.next = v.RateNext.Time(now)
	p := &s.pinger
	p.next, p.owedSince, p.timedAt, p.rtt = v.Ping.Time(now), v.OwedSince.Time(now), v.TimedAt.Time(now), v.RTT
	s.replay = replay{whole: v.Whole, stage: v.Stage, at: v.At, next: v.Replay.Time(now)}
	s.restored, s.pingDue, s.byeDue = v.Restored.Time(now), v.PingDue, v.ByeDue
	if err := saved.Duration("round-trip time", v.RTT); err != nil {
		return nil, err
	}
	if err := s.mirror.restore(v); err != nil {
		return nil, err
	}
	if err := s.deleted.restore(v); err != nil {
		return nil, err
	}
	all := len(s.mirror.slots)
	if v.Stage == deletions {
		all = len(s.deleted.ring)
	}
	if v.Stage > replayed || v.At < 0 || v.At > all || len(v.Opener) > maxDatagram {
		return nil, saved.Fault("place of the replay", v.At)
	}
	return s, nil
}

// restore brings an empty mirror to a saved state, within its bound.
func (m *mirror) restore(v *savedServer) error {
	m.overflowed = v.Overflow
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
		if c.Room < 0 || c.Room > maxDatagram || len(c.Data) > c.Room {
			return saved.Fault("room of a component", c.Room)
		}
		room += c.Room
	}
	overflowed := m.overflowed
	if v.Used < 0 || v.Used > len(v.Components) || !m.grow(slotCost+room) {
		return saved.Fault("size of the mirror", len(m.slots))
	}
	m.overflowed = overflowed
	s := slot{entity: v.Entity, alive: v.Alive, created: v.Created, repeats: v.Repeats}
	if len(v.Components) > 0 {
		s.components = make([]component, 0, len(v.Components))
	}
	for i := range v.Components {
		c := &v.Components[i]
		one := component{id: c.ID, known: c.Known, fresh: c.Fresh, own: c.Own, repeats: c.Repeats}
		if c.Room > 0 {
			one.data = append(make([]byte, 0, c.Room), c.Data...)
		}
		s.components = append(s.components, one)
	}
	s.components = s.components[:v.Used]
	if v.Alive {
		if m.where == nil {
			m.where = make(map[uint32]int)
		}
		if _, twice := m.where[v.Entity]; twice {
			return saved.Fault("entity", v.Entity)
		}
		m.where[v.Entity] = len(m.slots)
	}
	m.slots = append(m.slots, s)
	return nil
}

func (g *deletionLog) restore(v *savedServer) error {
	if len(v.Deleted) > 0 && len(v.Deleted) != maxDeletions || v.DeletedAt < 0 || v.DeletedAt >= maxDeletions {
		return saved.Fault("number of deletions", len(v.Deleted))
	}
	g.next = v.DeletedAt
	if len(v.Deleted) > 0 {
		g.ring = v.Deleted
	}
	for _, d := range v.Deleted {
		if d.Repeats < 0 || d.Repeats > maxRepeats || d.Repeats > 0 && d.Op != remove && d.Op != detach {
			return saved.Fault("deletion", d.Op)
		}
	}
	return nil
}
