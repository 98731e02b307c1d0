package codectest

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"time"

	"tidegate/codec"
)

// The figures of docs/security/tests.md are of 100 sessions and a minute.
var (
	forgerSeeds = flag.Int("forger.sessions", 5, "sessions under a forger's fire")
	forgerTime  = flag.Duration("forger.time", 20*time.Second, "how long a forger fires at a session, in virtual time")
)

const (
	forgerStep   = 20 * time.Millisecond
	forgerRate   = 1000.0                 // forged datagrams a second in each direction
	forgerPause  = 100 * time.Millisecond // between two messages of a side
	forgerSpied  = 3 * time.Second        // how long the forger watches a session of its own
	forgerSecret = 8                      // bytes of a payload that the forger does not know
)

// checkForger has a blind forger send datagrams in the names of both peers of a session. The forger knows the addresses
// and the protocol, and has a session of its own to copy. The session must live, each reliable message must arrive
// exactly once, and messages must keep coming. When a peer falls silent, the forger must not keep the session alive by
// datagrams that are refused.
func checkForger(t tb, c *Config) {
	if c.Defenceless != "" {
		t.Logf("measured, and not checked: %s", c.Defenceless)
	}
	var sum siege
	simulateSeeds(t, *forgerSeeds, func(r *report, seed uint64) {
		s := besiege(r, c, seed, forger{rate: forgerRate})
		if s == nil {
			return
		}
		sum.add(s)
		if c.Defenceless != "" {
			return
		}
		if s.ended {
			r.Errorf("the forger ended the session after %v: client %v, server %v", s.lasted,
				s.p.client.goodbye.Reason, s.p.server.goodbye.Reason)
			return
		}
		for _, f := range s.flows {
			f.check(r, c.ForgedGap)
		}
		s.silence(r, c)
	})
	t.Logf("%d sessions: %d ended, %d of %d messages lost, longest gap %v", sum.sessions, sum.lost, sum.missing, sum.sent,
		sum.gap)
}

// forger is a blind forger: its datagrams a second in each direction, and whether it knows about where the session's
// numbers are. Against allModes the peers talk in all modes, else in the reliable ones.
type forger struct {
	rate           float64
	near, allModes bool
}

// siege is one session under a blind forger's fire.
type siege struct {
	forger
	due      float64 // datagrams
	p        *pair
	rng      *rand.Rand
	toServer *hostileSource
	toClient *hostileSource
	flows    []*flow
	ended    bool
	lasted   time.Duration

	sessions, lost, missing, sent int
	gap                           time.Duration
}

// flow counts the messages of one direction.
type flow struct {
	from    *side
	mode    codec.Mode
	header  []byte // of each payload
	sent    []time.Time
	arrived []int
	latest  time.Time
	gap     time.Duration
}

// besiege plays one session under fire, or returns nil if there was none.
func besiege(r *report, c *Config, seed uint64, f forger) *siege {
	own := connectedPair(r, c, seed+1000)
	if own == nil {
		return nil
	}
	s := &siege{forger: f, rng: rand.New(rand.NewPCG(seed, 7))}
	s.toServer, s.toClient = own.tap()
	s.toServer.rng, s.toClient.rng = s.rng, s.rng
	own.converse(newFlows(own, s.rng, f.allModes), forgerSpied)

	if s.p = connectedPair(r, c, seed); s.p == nil {
		return nil
	}
	s.p.up.lenient, s.p.down.lenient = true, true
	s.flows = newFlows(s.p, s.rng, f.allModes)
	begun := s.p.net.Now()
	for s.p.net.Now().Sub(begun) < *forgerTime && !s.ended {
		s.fire()
		s.p.converse(s.flows, forgerStep)
		s.ended = s.p.client.over || s.p.server.over
	}
	s.lasted = s.p.net.Now().Sub(begun)
	s.p.net.Run(quiet + c.ForgedGap)
	s.ended = s.ended || s.p.client.over || s.p.server.over
	s.count()
	return s
}

// newFlows returns a flow for each direction and mode, or only for the reliable modes. A protocol without one has a
// flow in its first mode.
func newFlows(p *pair, rng *rand.Rand, allModes bool) (flows []*flow) {
	for _, way := range []struct{ from, to *side }{{p.client, p.server}, {p.server, p.client}} {
		if way.from == p.client && p.c.ClientPayload != nil {
			continue
		}
		var own []*flow
		for _, m := range p.c.modes {
			if allModes || m == codec.Reliable || m == codec.ReliableOrdered {
				own = append(own, newFlow(p, way.from, m, rng))
			}
		}
		if own == nil {
			own = append(own, newFlow(p, way.from, p.c.modes[0], rng))
		}
		way.to.onReceived = func(m codec.Message) {
			for _, f := range own {
				f.receive(p.net.Now(), m.Payload)
			}
		}
		flows = append(flows, own...)
	}
	return flows
}

func newFlow(p *pair, from *side, mode codec.Mode, rng *rand.Rand) *flow {
	f := &flow{from: from, mode: mode, header: bytes.Clone(p.c.Prefix), latest: p.net.Now()}
	for range forgerSecret {
		f.header = append(f.header, byte(rng.Uint32()))
	}
	return f
}

// converse has all flows send for a while.
func (p *pair) converse(flows []*flow, d time.Duration) {
	for end := p.net.Now().Add(d); p.net.Now().Before(end); {
		for _, f := range flows {
			f.send(p)
		}
		p.net.Run(min(forgerStep, end.Sub(p.net.Now())))
	}
}

func (f *flow) send(p *pair) {
	now := p.net.Now()
	if n := len(f.sent); f.from.over || n > 0 && now.Sub(f.sent[n-1]) < forgerPause {
		return
	}
	payload := binary.BigEndian.AppendUint32(bytes.Clone(f.header), uint32(len(f.sent)))
	m := codec.Message{Mode: f.mode, Payload: payload}
	if p.c.Channels > 1 && (f.mode == codec.UnreliableSequenced || f.mode == codec.ReliableSequenced) {
		m.Channel = 1 // ordered messages of the same channel would begin its numbers anew
	}
	if p.c.IDs.Has(f.mode) {
		m.HasID, m.ID = true, 1
	}
	if f.from.conn.Send(now, m) == nil {
		f.sent, f.arrived = append(f.sent, now), append(f.arrived, 0)
	}
}

// receive counts the flow's messages in a payload, which may be several joined ones.
func (f *flow) receive(now time.Time, payload []byte) {
	for {
		_, rest, ok := bytes.Cut(payload, f.header)
		if !ok || len(rest) < 4 {
			return
		}
		if i := binary.BigEndian.Uint32(rest); uint64(i) < uint64(len(f.arrived)) {
			f.arrived[i]++
			f.gap = max(f.gap, now.Sub(f.latest))
			f.latest = now
		}
		payload = rest[4:]
	}
}

// check checks what arrived of a session that lived.
func (f *flow) check(r *report, most time.Duration) {
	if f.gap > most {
		r.Errorf("%s: no %v message arrived for %v, want at most %v", f.from.name, f.mode, f.gap, most)
	}
	for i, n := range f.arrived {
		if f.mode.IsReliable() && n != 1 {
			r.Errorf("%s: %v message %d of %d arrived %d times", f.from.name, f.mode, i, len(f.arrived), n)
		}
	}
}

// fire injects the datagrams of one step.
func (s *siege) fire() {
	due := s.due + s.rate*forgerStep.Seconds()
	for i := range int(due) {
		at := time.Duration(float64(i) * float64(time.Second) / s.rate)
		s.p.net.Inject(at, clientAddr, serverAddr, s.forge(s.toServer, true))
		s.p.net.Inject(at, serverAddr, clientAddr, s.forge(s.toClient, false))
	}
	s.due = due - float64(int(due))
}

// forge returns a datagram of a forger: one of its own session with other numbers, or one that the codec knows to hurt.
func (s *siege) forge(h *hostileSource, toServer bool) []byte {
	if s.near {
		return s.p.c.ForgeNear(s.rng, toServer)
	}
	if s.p.c.Forge != nil && s.rng.IntN(2) == 0 {
		return s.p.c.Forge(s.rng, toServer)
	}
	b, _ := h.next()
	if len(b) > 4 && s.rng.IntN(2) == 0 { // a small number, as young sessions have
		at := 1 + s.rng.IntN(min(len(b)-3, 16))
		binary.LittleEndian.PutUint16(b[at:], uint16(s.rng.IntN(512)))
	}
	return b
}

// count sums up what became of the messages.
func (s *siege) count() {
	s.sessions = 1
	if s.ended {
		s.lost = 1
	}
	for _, f := range s.flows {
		s.gap = max(s.gap, f.gap)
		s.sent += len(f.sent)
		for _, n := range f.arrived {
			if n == 0 && !s.ended {
				s.missing++
			}
		}
	}
}

func (s *siege) add(o *siege) {
	s.sessions += o.sessions
	s.lost += o.lost
	s.missing += o.missing
	s.sent += o.sent
	s.gap = max(s.gap, o.gap)
}

// silence removes the client. The forger goes on in its name. The server must notice the silence in time, counted from
// the last forged datagram that it accepted.
func (s *siege) silence(r *report, c *Config) {
	s.p.net.Remove(clientAddr)
	begun := s.p.net.Now()
	for s.p.net.Now().Sub(begun) < 4*c.Timeout && !s.p.server.over {
		s.p.net.Inject(0, clientAddr, serverAddr, s.forge(s.toServer, true))
		s.p.net.Run(forgerStep)
		since := begun
		if s.p.server.accepted.After(begun) {
			since = s.p.server.accepted
		}
		if silent := s.p.net.Now().Sub(since); !s.p.server.over && silent > c.Timeout {
			r.Errorf("server: refused datagrams keep a silent peer's session alive for %v", silent)
			return
		}
	}
}
