package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
	"tidegate/session"
)

// BenchmarkIdleTimers measures the cost of deadlines for 50,000 idle sessions, as a share of a core. Each session has
// one datagram a second. Some sessions are relayed. The others have two connections that need a call every five
// seconds.
func BenchmarkIdleTimers(b *testing.B) {
	const sessions = 50_000
	b.Run("relayed", func(b *testing.B) {
		n := newTimersNet(b)
		for _, from := range crowd(sessions) {
			n.relayed(from)
		}
		var entries []*Entry
		for e := range n.relay.table.All {
			entries = append(entries, e)
		}
		benchTimers(b, n, entries, func(e *Entry) { e.Value.heard = e.Value.since(n.now) })
		if left := n.relay.table.Len(); left != sessions {
			b.Fatalf("%d sessions are left", left)
		}
	})
	b.Run("terminated", func(b *testing.B) {
		n := newTimersNet(b)
		var entries []*Entry
		for _, from := range crowd(sessions) {
			entries = append(entries, n.asleep(from))
		}
		benchTimers(b, n, entries, func(e *Entry) { e.Value.heard = e.Value.since(n.now) })
		if left := n.relay.table.Len(); left != sessions {
			b.Fatalf("%d sessions are left", left)
		}
	})
}

func newTimersNet(b *testing.B) *crowdNet {
	return newCrowdNet(b, Transport{Sources: netip.MustParsePrefix("127.64.0.0/10")}, policy.ModeRelay, Any)
}

// benchTimers lets seconds pass in turns of a millisecond. In each turn, a thousandth of the sessions receives a
// datagram.
func benchTimers[T any](b *testing.B, n *crowdNet, entries []*session.Entry[T], hear func(*session.Entry[T])) {
	var spent time.Duration
	share, seconds := len(entries)/1000, 0
	b.ResetTimer()
	for range b.N {
		for ms := range 1000 {
			n.now = n.now.Add(time.Millisecond)
			for _, e := range entries[ms*share : (ms+1)*share] {
				hear(e)
			}
			begin := time.Now()
			n.relay.Advance(n.now)
			n.relay.Flush(n.now)
			n.relay.NextTimeout()
			spent += time.Since(begin)
		}
		seconds++
	}
	b.ReportMetric(float64(spent)/float64(time.Duration(seconds)*time.Second)*100, "%core")
}

// asleep adds an established session of two connections that send nothing.
func (c *crowdNet) asleep(from netip.AddrPort) *Entry {
	r := c.relay
	l := r.listeners[0]
	e, err := r.table.Add(session.Key{Listener: l.index, Client: from}, link{
		listener: l, route: l.route, protocol: l.entries[0].protocol, tally: l.entries[0].tally, life: joined,
		heard: c.now.Sub(r.born),
		terminated: &terminated{
			bridge:   l.entries[0].bridge,
			client:   side{Sender: bridge.Sender{Conn: &sleeper{now: c.now}}, up: true},
			upstream: side{Sender: bridge.Sender{Conn: &sleeper{now: c.now}}, up: true},
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	r.table.Establish(e)
	r.dirty.mark(e)
	return e
}

// sleeper is a connection that asks for a call every five seconds and then does nothing.
type sleeper struct {
	codec.Conn // the Relay calls no other method
	now        time.Time
}

func (s *sleeper) Advance(now time.Time)                         { s.now = now }
func (s *sleeper) NextTimeout() time.Time                        { return s.now.Add(5 * time.Second) }
func (s *sleeper) Poll() (codec.Event, bool)                     { return codec.Event{}, false }
func (s *sleeper) Transmit(_ time.Time, b []byte) ([]byte, bool) { return b, false }
func (s *sleeper) Stats() codec.Stats                            { return codec.Stats{} }
