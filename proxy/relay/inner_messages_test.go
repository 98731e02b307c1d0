package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/filter"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// envelopeForm is one form of envelope: a protocol without message IDs, the route's envelope, and the side that uses
// it. The other side speaks Riptide.
type envelopeForm struct {
	near   member
	kind   policy.Envelope
	sender policy.Direction
}

func (f envelopeForm) String() string {
	return fmt.Sprintf("%v/%v/%v", f.near, f.kind, [...]string{"", "client", "server"}[f.sender])
}

// envelopeForms returns every form of envelope, of every protocol that can have one.
func envelopeForms() (all []envelopeForm) {
	for _, near := range udpMembers(noRType) { // R-Type carries only its own messages
		if near.Spec().IDs == codec.IDBeside {
			continue
		}
		for _, kind := range []policy.Envelope{policy.EnvelopeID, policy.EnvelopeFramed, policy.EnvelopeAggregate} {
			for _, sender := range []policy.Direction{policy.FromClient, policy.FromUpstream} {
				all = append(all, envelopeForm{near, kind, sender})
			}
		}
	}
	return all
}

// pack returns an envelope with messages of the IDs from first to last. Their payloads are one byte long.
func (f envelopeForm) pack(first, last uint16) codec.Message {
	hasByte := f.near.Spec().IDs == codec.IDFirstByte
	var b []byte
	if hasByte {
		b = append(b, 0x86)
	}
	if hasByte && f.kind == policy.EnvelopeAggregate {
		b = append(b, 0)
	}
	for id := first; id <= last; id++ {
		if f.kind != policy.EnvelopeID {
			b = binary.LittleEndian.AppendUint16(b, 3)
		}
		b = append(binary.LittleEndian.AppendUint16(b, id), 'x')
	}
	return codec.Message{Payload: b, Mode: strongest(f.near)}
}

// most returns how many messages one envelope of the form may have: one, or as many as wanted.
func (f envelopeForm) most(wanted uint16) uint16 {
	if f.kind == policy.EnvelopeID {
		return 1
	}
	return wanted
}

// join joins a player to a server. It returns the end that uses the envelope, and the other end.
func (f envelopeForm) join(t *testing.T, change func(*Settings)) (w *world, from, to *peer) {
	t.Helper()
	clients, servers := codec.Protocol(f.near), codec.Protocol(steady22)
	if f.sender == policy.FromUpstream {
		clients, servers = servers, clients
	}
	route := matrixRoute(clients, servers)
	route.Bridge.Envelope = f.kind
	route.Bridge.AllowLossy = false
	w = newWorldWith(t, 1, simnet.Weather{Latency: time.Millisecond}, clients, route, change)
	inner := w.servers[0].react
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind != codec.Received { // no echo
			inner(now, p, ev)
		}
	}
	p := w.connect(codec.Hello{})
	w.await("joined", 5*time.Second, func() bool { return len(w.servers[0].peers) == 1 })
	w.Run(500 * time.Millisecond)
	from, to = &p.peer, w.servers[0].peers[0]
	if f.sender == policy.FromUpstream {
		from, to = to, from
	}
	return w, from, to
}

// counted returns the counters of the sender's messages: the Relay's, the listener's, and the session's.
func (f envelopeForm) counted(w *world) (all [3]uint64) {
	r := w.proxy.relay
	for e := range r.table.All {
		s := &e.Value
		relay, tally, session := r.counters.FromClients, &s.tally.FromClients, s.fromClient
		if f.sender == policy.FromUpstream {
			relay, tally, session = r.counters.FromUpstreams, &s.tally.FromUpstreams, s.fromServer
		}
		all[0], all[2] = relay.Messages, session.Messages
		for _, traffic := range tally {
			all[1] += traffic.Messages
		}
	}
	return all
}

// eachForm runs a test for every form of envelope.
func eachForm(t *testing.T, run func(*testing.T, envelopeForm)) {
	for _, f := range envelopeForms() {
		t.Run(f.String(), func(t *testing.T) { run(t, f) })
	}
}

// TestFiltersJudgeInnerMessages sends messages of two IDs in one envelope. A rule about one ID stops exactly the
// messages of that ID.
func TestFiltersJudgeInnerMessages(t *testing.T) {
	eachForm(t, func(t *testing.T, f envelopeForm) {
		w, from, to := f.join(t, func(s *Settings) {
			s.Filter = rules(t, filter.Rules{Messages: []filter.Message{
				{Name: "666", IDs: []filter.Range{{Low: 666, High: 666}}, Verdict: ratelimit.Drop},
			}})
		})
		n := f.most(10)
		w.send(from, f.pack(666, 666+n-1))
		w.Run(500 * time.Millisecond)
		matches := w.proxy.relay.guard.RuleCounts()[0].Matches
		if got := len(to.received()); got != int(n)-1 || matches != 1 || w.drops(stats.DropMessageRule) != 1 {
			t.Errorf("%d of %d arrived, want all but one; %d matches, %d drops", got, n, matches,
				w.drops(stats.DropMessageRule))
		}
	})
}

// TestPacketRulesSeeEnvelopes asserts that a rule about first bytes still judges the byte that names an envelope.
func TestPacketRulesSeeEnvelopes(t *testing.T) {
	eachForm(t, func(t *testing.T, f envelopeForm) {
		if f.near.Spec().IDs != codec.IDFirstByte {
			return // its envelopes have no such byte
		}
		w, from, to := f.join(t, func(s *Settings) {
			s.Filter = rules(t, filter.Rules{Messages: []filter.Message{
				{Name: "0x86", Packets: []filter.Range{{Low: 0x86, High: 0x86}}, Verdict: ratelimit.Drop},
			}})
		})
		n := f.most(10)
		w.send(from, f.pack(1, n))
		w.Run(500 * time.Millisecond)
		if got := w.proxy.relay.guard.RuleCounts()[0].Matches; got != uint64(n) || len(to.received()) != 0 {
			t.Errorf("%d matches for %d messages, and %d arrived", got, n, len(to.received()))
		}
	})
}

// TestCountersCountInnerMessages asserts that each message of an envelope counts once everywhere.
func TestCountersCountInnerMessages(t *testing.T) {
	eachForm(t, func(t *testing.T, f envelopeForm) {
		w, from, to := f.join(t, func(*Settings) {})
		before := f.counted(w)
		n := f.most(20)
		w.send(from, f.pack(1, n))
		w.Run(500 * time.Millisecond)
		for i, count := range f.counted(w) {
			if got := count - before[i]; got != uint64(n) {
				t.Errorf("counter %d counts %d of %d messages", i, got, n)
			}
		}
		if got := len(to.received()); got != int(n) {
			t.Errorf("%d of %d arrived", got, n)
		}
	})
}

// TestLimitsJudgeInnerMessages sends more reliable messages at once than a limit allows. The session ends at the
// first one beyond the limit, however the messages are packed, and those before it arrive.
func TestLimitsJudgeInnerMessages(t *testing.T) {
	const most = 12
	eachForm(t, func(t *testing.T, f envelopeForm) {
		if f.sender != policy.FromClient || !f.near.Spec().Modes.AnyReliable() {
			return // only a client's reliable messages have a limit
		}
		w, from, to := f.join(t, func(s *Settings) {
			s.Bounds = []ratelimit.Limit{
				limit(ratelimit.ReliableMessages, ratelimit.PerSession, 1, most, ratelimit.Disconnect)}
		})
		n := f.most(300)
		for first := uint16(1); first <= 300; first += n {
			_ = from.conn.Send(w.Now(), f.pack(first, first+n-1)) // the session may have ended
			if f.near.Spec().Joins {
				w.Run(50 * time.Millisecond) // RUDP joins the messages of a period
			}
		}
		w.await("ended", 5*time.Second, from.gone)
		if got := len(to.received()); got != most {
			t.Errorf("%d messages arrived, want the %d of the limit", got, most)
		}
		if got := w.breaches(ratelimit.ReliableMessages, ratelimit.PerSession).Enforced; got != 1 {
			t.Errorf("%d breaches, want 1: nothing is judged after the end of a session", got)
		}
	})
}

// TestNumberOfInnerMessagesIsBounded sends one envelope with one message too many. The others arrive, and the session
// ends, since a reliable message may not vanish silently.
func TestNumberOfInnerMessagesIsBounded(t *testing.T) {
	eachForm(t, func(t *testing.T, f envelopeForm) {
		if f.kind == policy.EnvelopeID {
			return // it holds one message
		}
		w, from, to := f.join(t, func(*Settings) {})
		err := from.conn.Send(w.Now(), f.pack(1, bridge.MostParts+1))
		if errors.Is(err, codec.ErrTooLarge) && f.near.Spec().Joins {
			return // a packet of RUDP has room for fewer
		}
		if err != nil {
			t.Fatal(err)
		}
		w.await("ended", 5*time.Second, from.gone)
		w.Run(time.Second)
		if got := len(to.received()); got != bridge.MostParts {
			t.Errorf("%d messages arrived, want %d", got, bridge.MostParts)
		}
		if got := w.drops(stats.DropLimit); got != 1 {
			t.Errorf("%d dropped for the limit, want 1", got)
		}
	})
}

// TestUnwrappingStopsWithTheSession lets a rule end the session by one message in the middle of an envelope. No later
// message is read, judged or counted by a rule.
func TestUnwrappingStopsWithTheSession(t *testing.T) {
	eachForm(t, func(t *testing.T, f envelopeForm) {
		w, from, to := f.join(t, func(s *Settings) {
			s.Filter = rules(t, filter.Rules{Messages: []filter.Message{
				{Name: "from 5", IDs: []filter.Range{{Low: 5, High: 1000}}, Verdict: ratelimit.Disconnect},
			}})
		})
		n := f.most(20)
		for first := uint16(1); first <= 20; first += n {
			_ = from.conn.Send(w.Now(), f.pack(first, first+n-1)) // the session may have ended
			if f.near.Spec().Joins {
				w.Run(50 * time.Millisecond) // RUDP joins the messages of a period
			}
		}
		w.await("ended", 5*time.Second, from.gone)
		if got := len(to.received()); got != 4 && f.near.Spec().Modes.AnyReliable() {
			t.Errorf("%d arrived, want the 4 before the fault", got)
		}
		if got := w.proxy.relay.guard.RuleCounts()[0].Matches; got != 1 {
			t.Errorf("%d messages were judged by the rule, want 1", got)
		}
	})
}
