package relay

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// tally returns the tally of the world's only listener and protocol.
func (w *world) tally() *stats.Tally {
	w.t.Helper()
	all := w.proxy.relay.Figures().Sessions
	if len(all) != 1 {
		w.t.Fatalf("%d tallies, want 1", len(all))
	}
	return all[0]
}

func TestFiguresOfSessions(t *testing.T) {
	w := riptideWorld(t, nil)
	stays, leaves := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Close(now, codec.Goodbye{Reason: codec.ServerFull})
		}
	}
	refused := w.join(codec.Hello{})
	w.await("half open", time.Second, func() bool { return w.tally().Opened == 3 })
	if got := w.tally(); got.Opened != 3 || got.Established != 2 || got.Open() != 3 || got.HalfOpen() != 1 {
		t.Errorf("with one half open: %+v", got)
	}
	w.await("refused", 10*time.Second, refused.gone)
	leaves.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.Run(time.Minute)
	got := w.tally()
	if got.Open() != 1 || got.HalfOpen() != 0 || got.Ended[stats.ByClient][codec.Closed] != 1 ||
		got.Ended[stats.ByUpstream][codec.ServerFull] != 1 {
		t.Errorf("after one has left: %+v", got)
	}
	if got.Listener != "play" || got.Protocol != "riptide-2.2" || stays.gone() {
		t.Errorf("%+v, the other is gone: %v", got, stays.gone())
	}
	if got.Opened != got.Established+got.Unestablished {
		t.Errorf("%d opened, %d established, %d not", got.Opened, got.Established, got.Unestablished)
	}
}

func TestFiguresOfTraffic(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond, Loss: 0.1}, riptide22(), defaultRoute(raknet6()))
	p := w.connect(codec.Hello{})
	for range 50 {
		w.send(&p.peer, codec.Message{Payload: []byte("12345"), Mode: codec.Reliable, ID: 7, HasID: true})
		w.Run(50 * time.Millisecond)
	}
	w.await("echoed", time.Minute, func() bool { return len(p.received()) == 50 })
	w.Run(20 * time.Second)
	f := w.proxy.relay.Figures()
	if got := f.Sessions[0].FromClients[codec.Reliable]; got != (stats.Traffic{Messages: 50, Bytes: 250}) {
		t.Errorf("from clients %+v", got)
	}
	if got := f.Sessions[0].FromUpstreams; got[codec.Reliable].Messages+got[codec.ReliableOrdered].Messages != 50 {
		t.Errorf("from upstreams %+v", got)
	}
	c, u := f.Counters.Clients, f.Counters.Upstreams
	if c.In.Messages < 50 || c.Out.Messages < 50 || u.In.Messages == 0 || u.Out.Messages == 0 || u.Out.Bytes < 50*8 {
		t.Errorf("datagrams of clients %+v, of upstreams %+v", c, u)
	}
	// A heartbeat a second over 40 ms: a sample every 5 s finds round trips of about that.
	for side, s := range map[string]*stats.Samples{"client": &f.ToClients, "upstream": &f.ToUpstreams} {
		mean := s.RTT.Sum() / time.Duration(max(s.RTT.Count(), 1))
		if s.RTT.Count() < 2 || mean < 40*time.Millisecond || mean > 60*time.Millisecond {
			t.Errorf("%s: %d round trips of %v", side, s.RTT.Count(), mean)
		}
		if s.Resent == 0 || s.Queued != 0 {
			t.Errorf("%s: %d resent and %d bytes queued, of a bad network long after the last message", side, s.Resent, s.Queued)
		}
	}
}

// TestFiguresForgetQueues asserts that queued bytes for a server no longer count once the session ends or moves.
func TestFiguresForgetQueues(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, raknet6(), defaultRoute(raknet6()))
	p := w.connect(codec.Hello{})
	w.servers[0].down = true
	w.send(&p.peer, codec.Message{Payload: bytes.Repeat([]byte{0x90}, 1000), Mode: codec.Reliable})
	w.await("queued", 10*time.Second, func() bool { return w.proxy.relay.Figures().ToUpstreams.Queued >= 1000 })
	w.Run(time.Minute)
	if got := w.proxy.relay.Figures().ToUpstreams.Queued; got != 0 || w.proxy.relay.table.Len() != 0 {
		t.Errorf("%d bytes queued for %d sessions", got, w.proxy.relay.table.Len())
	}
}

// TestFiguresOutliveAReload asserts that totals never shrink, even for a removed listener.
func TestFiguresOutliveAReload(t *testing.T) {
	w := riptideWorld(t, nil)
	w.connect(codec.Hello{})
	w.proxy.relay.Receive(w.Now(), w.proxy.sockets[listenerAddr], playerAddr(99), nil)
	w.reload(func(s *Settings) { s.Listeners[0].Name = "renamed" })
	w.connect(codec.Hello{})
	f := w.proxy.relay.Figures()
	if len(f.Sessions) != 2 || f.Sessions[0].Opened != 1 || f.Sessions[1].Listener != "renamed" ||
		f.Sessions[1].Opened != 1 {
		t.Errorf("sessions %+v", f.Sessions)
	}
	if f.Drops[0].Listener != "play" || f.Drops[0].Drops[stats.DropEmpty] != 1 || f.Drops[1].Listener != "renamed" {
		t.Errorf("drops %+v", f.Drops)
	}
	twice := f
	twice.Add(&f)
	if len(twice.Sessions) != 2 || twice.Sessions[0].Opened != 2 || twice.Drops[0].Drops[stats.DropEmpty] != 2 {
		t.Errorf("of two loops: %+v %+v", twice.Sessions, twice.Drops)
	}
}

// TestFiguresOfServers asserts that each server has its own joins, refusals and samples, and that the servers' figures
// sum up to the totals. Server 0 is full at first.
func TestFiguresOfServers(t *testing.T) {
	route := defaultRoute(raknet6())
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	route.Upstream.Options.Balance = policy.RoundRobin
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond, Loss: 0.1}, riptide22(), route)
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Close(now, codec.Goodbye{Reason: codec.ServerFull})
		}
	}
	for range 4 {
		w.join(codec.Hello{})
	}
	w.Run(30 * time.Second)
	w.servers[0].react = welcome()
	var players []*player
	for range 4 {
		players = append(players, w.connect(codec.Hello{}))
	}
	for range 50 {
		for _, p := range players {
			w.send(&p.peer, codec.Message{Payload: []byte("12345"), Mode: codec.Reliable, ID: 7, HasID: true})
		}
		w.Run(100 * time.Millisecond)
	}
	f := w.proxy.relay.Figures()
	if len(f.Servers) != 2 {
		t.Fatalf("%d servers have a tally, want 2", len(f.Servers))
	}
	var joined, full uint64
	var legs [2]stats.Leg
	for _, s := range f.Servers {
		joined += s.Joined
		if s.Server == w.servers[0].addr.String() {
			full = s.Refused[codec.ServerFull]
		}
		for i, leg := range []*stats.Leg{&s.ToClients, &s.ToServer} {
			stats.Add(&legs[i], leg)
			if leg.RTT.Count() == 0 || leg.Resent == 0 {
				t.Errorf("%s, side %d: %d round trips, %d resent", s.Server, i, leg.RTT.Count(), leg.Resent)
			}
		}
	}
	established := f.Sessions[0].Established
	if joined != established || full == 0 || full+established != 8 {
		t.Errorf("%d joined and %d found it full; %d sessions are established", joined, full, established)
	}
	for i, total := range []*stats.Samples{&f.ToClients, &f.ToUpstreams} {
		if legs[i].RTT != total.RTT || legs[i].Lost != total.Lost {
			t.Errorf("side %d: servers have %+v, in all there are %+v", i, legs[i], total.Leg)
		}
	}
	if got := f.Sessions[0].Handshakes; got.Count() != established || got.Sum() == 0 {
		t.Errorf("%d handshakes in %v", got.Count(), got.Sum())
	}
}

// TestFiguresOfServersAreBounded asserts that new servers without end share a tally, and that a known one keeps its.
func TestFiguresOfServersAreBounded(t *testing.T) {
	var all stats.Tallies
	for i := range 2 * stats.MaxServers {
		all.ServerOf("arena:7777", playerAddr(i)).Joined++
	}
	last := all.Servers[len(all.Servers)-1]
	if len(all.Servers) != stats.MaxServers+1 || last.Server != stats.OtherServers || last.Joined != stats.MaxServers {
		t.Errorf("%d tallies; the last one is %q with %d joins", len(all.Servers), last.Server, last.Joined)
	}
	if first := all.ServerOf("arena", playerAddr(0)); first.Joined != 1 || first.Upstream != "arena" {
		t.Errorf("the first server has %+v", first)
	}
}
