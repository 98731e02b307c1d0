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
