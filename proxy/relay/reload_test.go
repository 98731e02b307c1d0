package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
)

// otherListener is the new address of a moved listener.
var otherListener = netip.MustParseAddrPort("10.0.0.1:7778")

// reload gives the proxy a changed copy of the world's settings.
func (w *world) reload(change func(*Settings)) {
	s := *w.settings
	s.Listeners = append([]Listener(nil), s.Listeners...)
	change(&s)
	sockets := make([]netio.Socket, len(s.Listeners))
	present := listenersByKey(w.proxy.relay.listeners, w.proxy.relay.retired.list)
	for i := range s.Listeners {
		if present[s.Listeners[i].key()] == nil {
			socket := &simSocket{addr: s.Listeners[i].Addr}
			w.proxy.sockets[socket.addr], sockets[i] = socket, socket
		}
	}
	w.proxy.relay.Reload(w.Now(), &s, sockets)
	w.settings = &s
}

// echoes sends a message and waits for its echo.
func (w *world) echoes(p *player, text string) {
	w.t.Helper()
	before := len(p.received())
	w.send(&p.peer, codec.Message{Payload: []byte(text), Mode: codec.Reliable, ID: 7, HasID: true})
	w.await("echoed", 10*time.Second, func() bool { return len(p.received()) > before })
}

// TestReloadKeepsSessions asserts that a session stays at its server, while new clients go where the new settings
// say.
func TestReloadKeepsSessions(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, riptide22(), defaultRoute(raknet6()))
	p := w.connect(codec.Hello{})
	w.echoes(p, "before")
	w.reload(func(s *Settings) {
		route := *s.Listeners[0].Route
		up := *route.Upstream
		up.Servers = []upstream.Target{{Addr: secondAddr}}
		route.Upstream = &up
		s.Listeners[0].Name, s.Listeners[0].Route = "renamed", &route
	})
	w.echoes(p, "after")
	second := w.connect(codec.Hello{})
	w.echoes(second, "at the other server")
	if got := [2]int{len(w.servers[0].peers), len(w.servers[1].peers)}; got != [2]int{1, 1} {
		t.Errorf("players at the servers: %v, want one each", got)
	}
	if a, b := p.find(codec.Connected).Client, second.find(codec.Connected).Client; a == b {
		t.Errorf("both players are client %d", a)
	}
	if got := w.proxy.relay.Snapshot(w.Now()).Sessions[0].Listener; got != "renamed" {
		t.Errorf("the listener is called %q", got)
	}
}

// TestReloadChangesLimits asserts that new limits apply at once, and only to new clients.
func TestReloadChangesLimits(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	w.reload(func(s *Settings) { s.Limits.Sessions = 1 })
	refused := w.join(codec.Hello{})
	w.await("refused", 20*time.Second, refused.gone)
	w.echoes(p, "still here")
}

// TestReloadRetiresListeners asserts that a removed listener admits no client, serves its present sessions, and
// closes after the last one.
func TestReloadRetiresListeners(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	old := w.proxy.sockets[listenerAddr]
	w.reload(func(s *Settings) { s.Listeners[0].Addr = otherListener })
	w.echoes(p, "by the old listener")
	refused := w.join(codec.Hello{})
	w.await("refused", 20*time.Second, refused.gone)
	if old.closed {
		t.Fatal("the socket was closed under a session")
	}
	p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("closed", 20*time.Second, func() bool { return old.closed })
	if w.proxy.sockets[otherListener].owner != w.proxy.relay.listeners[0] {
		t.Error("the new listener has no session")
	}
}

// TestReloadBringsListenersBack asserts that a restored listener has its old socket while a session uses it.
func TestReloadBringsListenersBack(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	old := w.proxy.sockets[listenerAddr]
	for range 3 {
		w.reload(func(s *Settings) { s.Listeners[0].Addr = otherListener })
		w.echoes(p, "away")
		w.reload(func(s *Settings) { s.Listeners[0].Addr = listenerAddr })
		w.echoes(p, "back")
	}
	if w.proxy.sockets[listenerAddr] != old || w.proxy.relay.listeners[0].socket != netio.Socket(old) {
		t.Fatal("the listener has another socket")
	}
	second := w.connect(codec.Hello{})
	for _, one := range []*player{p, second} {
		one.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	}
	w.await("forgotten", 20*time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
	if old.closed {
		t.Error("the listener closed with its last session though the settings have it")
	}
}

// TestReloadClosesIdleListeners asserts that a removed listener without sessions closes at once.
func TestReloadClosesIdleListeners(t *testing.T) {
	w := riptideWorld(t, nil)
	w.reload(func(s *Settings) { s.Listeners[0].Addr = otherListener })
	if !w.proxy.sockets[listenerAddr].closed {
		t.Error("the socket of a listener that is gone is open")
	}
}

// TestReloadKeepsServerTexts asserts that server lists see the same text while the proxy asks the servers again.
func TestReloadKeepsServerTexts(t *testing.T) {
	l := newListed(t, nil)
	l.says(0, "MCPE;one;1;1;1;10;1;one;Survival;1;1;1;")
	l.RunUntil(5*time.Second, func() bool { return len(l.settings.Listeners[0].Pong.Text()) > 0 })
	before := string(l.settings.Listeners[0].Pong.Text())
	old := l.proxy.relay.pingers[0].servers[0].socket.(*simSocket)
	l.reload(func(s *Settings) { s.Listeners[0].Pong = new(Pong) })
	if got := string(l.settings.Listeners[0].Pong.Text()); got != before || before == "" {
		t.Errorf("the text is %q, was %q", got, before)
	}
	if !old.closed {
		t.Error("the socket to the asked server is still open")
	}
	l.says(0, "MCPE;two;1;1;1;10;1;two;Survival;1;1;1;")
	if !l.RunUntil(10*time.Second, func() bool { return string(l.settings.Listeners[0].Pong.Text()) != before }) {
		t.Error("the servers are not asked again")
	}
}

// TestReloadInBadWeather asserts that messages under way during reloads arrive once.
func TestReloadInBadWeather(t *testing.T) {
	route := defaultRoute(raknet6())
	w := newWorld(t, 7, simnet.Weather{Loss: 0.1, Latency: 40 * time.Millisecond, Jitter: 10 * time.Millisecond},
		raknet6(), route)
	p := w.connect(codec.Hello{})
	const messages = 200
	for i := range messages {
		w.send(&p.peer, codec.Message{Payload: []byte{0x86, byte(i)}, Mode: codec.ReliableOrdered})
		w.RunUntil(10*time.Millisecond, func() bool { return false })
		w.reload(func(*Settings) {})
	}
	w.await("echoed", 30*time.Second, func() bool { return len(p.received()) >= messages })
	for i, m := range p.received() {
		if m.Payload[1] != byte(i) {
			t.Fatalf("message %d is %d", i, m.Payload[1])
		}
	}
}
