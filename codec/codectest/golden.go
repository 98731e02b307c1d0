package codectest

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/testkit/oldrecords"
)

// goldenMessages is the number of messages of each mode that each side has in flight or in its queue when it is saved.
const goldenMessages = 6

// goldenSession is a session as one release saved it, with the fate of its messages so far. Its JSON names are fixed.
type goldenSession struct {
	Seed   uint64     `json:"seed"`
	Client goldenSide `json:"client"`
	Server goldenSide `json:"server"`
}

type goldenSide struct {
	Record   []byte          `json:"record"`
	Stats    codec.Stats     `json:"stats"`
	Messages []goldenMessage `json:"messages"` // that this side has sent
}

type goldenMessage struct {
	Mode      codec.Mode `json:"mode"`
	Channel   uint8      `json:"channel,omitempty"`
	Size      int        `json:"size"`
	Pad       uint8      `json:"pad,omitempty"`
	Receipt   bool       `json:"receipt,omitempty"`
	Arrivals  int        `json:"arrivals,omitempty"`
	Answers   int        `json:"answers,omitempty"`
	Delivered bool       `json:"delivered,omitempty"`
}

// TestRecords restores the sessions of a dialect that earlier releases have saved, and plays on. All messages that were
// under way arrive as their modes promise.
func TestRecords(t *testing.T, dialect string, config Config) {
	c := config.withDefaults()
	save := func() (session goldenSession) {
		simulate(t, "saved", func(r *report) { session = saveGolden(r, c) })
		return session
	}
	oldrecords.Each(t, dialect, save, func(t *testing.T, session *goldenSession) {
		simulate(t, "restored", func(r *report) { session.playOn(r, c) })
	})
}

// saveGolden saves a session in the middle of its traffic.
func saveGolden(r *report, c *Config) (v goldenSession) {
	twin := *c
	twin.twins = true // both sides poll before they are saved
	p := connectedPair(r, &twin, 1)
	if p == nil {
		return v
	}
	p.net.SetWeather(simnet.Weather{Latency: 20 * time.Millisecond, Loss: 0.3})
	for _, s := range []*side{p.client, p.server} {
		s.plan = p.goldenPlan()
	}
	p.net.Run(120 * time.Millisecond)
	return goldenSession{Seed: 1, Client: p.client.golden(p.net.Now()), Server: p.server.golden(p.net.Now())}
}

// goldenPlan has messages of each mode and of some sizes, 5 ms apart.
func (p *pair) goldenPlan() (plan []planned) {
	at := p.net.Now()
	for i := range goldenMessages * len(p.c.modes) {
		m := p.c.modes[i%len(p.c.modes)]
		size := usualSize
		if i%5 == 4 {
			size = largeSize
		}
		one := planned{at: at, mode: m, size: min(size, p.c.MaxPayload(m)-maxIDSize), receipt: i%2 == 0}
		if hasChannel(m) {
			one.channel = uint8(i / len(p.c.modes) % p.c.Channels)
		}
		plan = append(plan, one)
		at = at.Add(5 * time.Millisecond)
	}
	return plan
}

// golden saves a side.
func (s *side) golden(now time.Time) goldenSide {
	s.drain(now)
	v := goldenSide{Record: s.conn.Save(now, nil), Stats: s.conn.Stats()}
	for _, m := range s.out.records {
		v.Messages = append(v.Messages, goldenMessage{
			Mode: m.mode, Channel: m.channel, Size: m.size, Pad: m.pad, Receipt: m.receipt,
			Arrivals: m.arrivals, Answers: m.answers, Delivered: m.delivered,
		})
	}
	return v
}

// playOn restores both sides, and plays on until all is settled, with further messages and a goodbye.
func (v *goldenSession) playOn(r *report, c *Config) {
	p := newPair(r, c, v.Seed, clear20)
	server, client := c.New(v.Seed)
	p.node = &serverNode{protocol: server, r: r, self: serverAddr, client: clientAddr, side: p.server}
	if !v.Client.restore(p, p.client, client) || !v.Server.restore(p, p.server, server) {
		return
	}
	p.server.wasAsked = true
	p.net.Add(p.node, serverAddr)
	p.net.Add(&clientNode{side: p.client, spec: client.Spec(), self: clientAddr, server: serverAddr}, clientAddr)
	p.runUntilSettled(false)
	for _, s := range []*side{p.client, p.server} {
		s.plan = p.goldenPlan()
	}
	p.runUntilSettled(false)
	p.checkReleased()
	p.closeAndCheck(p.client, c.Leaves[0].Sent)
}

// restore restores a side with the fate of its messages.
func (v *goldenSide) restore(p *pair, s *side, protocol codec.Protocol) bool {
	now := p.net.Now()
	conn, err := protocol.Restore(now, nil, v.Record)
	if err != nil {
		p.r.Errorf("%s: %v", s.name, err)
		return false
	}
	if got := conn.Stats(); got != v.Stats {
		p.r.Errorf("%s: the figures are %+v, and were %+v", s.name, got, v.Stats)
	}
	if lost := lostEntry(entriesOf(v.Record), entriesOf(conn.Save(now, nil)), "field"); lost != "" {
		p.r.Errorf("%s: %s of the record is not restored", s.name, lost)
	}
	s.conn, s.connected, s.clientID = conn, true, p.server.admitID
	for _, m := range v.Messages {
		sent := s.out.compose(m.Mode, m.Channel, m.Size, m.Pad, m.Receipt)
		s.out.accepted(sent)
		if m.Arrivals > 0 && s.out.fixed == nil {
			s.out.count(uint32(len(s.out.records) - 1))
		}
		last := &s.out.records[len(s.out.records)-1]
		last.arrivals, last.answers, last.delivered = m.Arrivals, m.Answers, m.Delivered
	}
	return true
}
