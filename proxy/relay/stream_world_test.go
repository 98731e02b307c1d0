package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/upstream"
)

// streamWorld joins players over TCP to servers over TCP, of Riptide 2.0 to 2.2.
func streamWorld(t *testing.T, change func(*Route)) *world {
	client, server := streamed("riptide-2.0"), streamed("riptide-2.2")
	route := defaultRoute(server.Protocol)
	route.Upstream.Transport = server.transport
	change(route)
	weather := simnet.Weather{Latency: 5 * time.Millisecond}
	return newWorldWith(t, 1, weather, client.Protocol, route, func(s *Settings) {
		s.Listeners[0].Transport = client.transport
	})
}

// refuseStreams makes the first server refuse all streams.
func (w *world) refuseStreams() { w.servers[0].down = true }

func TestRefusedStreamUpstream(t *testing.T) {
	w := streamWorld(t, func(*Route) {})
	w.refuseStreams()
	w.settings.HandshakeTimeout = 3 * time.Second
	p := w.join(codec.Hello{})
	w.await("refused", w.settings.HandshakeTimeout+time.Second, p.gone)
	if end := p.find(codec.Disconnected); end.Reason != codec.NoConnection {
		t.Errorf("told %v, want no-connection", end.Reason)
	}
	w.await("forgotten", time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
}

func TestNextServerAfterARefusedStream(t *testing.T) {
	w := streamWorld(t, func(r *Route) { r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}} })
	w.refuseStreams()
	w.connect(codec.Hello{})
	if w.Elapsed() > time.Second || len(w.servers[1].peers) != 1 {
		t.Errorf("connected after %v, %d at the second server", w.Elapsed(), len(w.servers[1].peers))
	}
}

// TestConnectOnceOverAStream asserts that a slow server gets one Connect, because a stream loses nothing. Servers of
// Riptide 2.0 treat a second one as an error and end the stream.
func TestConnectOnceOverAStream(t *testing.T) {
	for _, server := range []member{streamed("riptide-2.0"), streamed("riptide-2.2")} {
		t.Run(server.String(), func(t *testing.T) {
			route := defaultRoute(server.Protocol)
			route.Upstream.Transport = server.transport
			w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
			w.tcpServers[0].strict = true
			var players []*player
			for i := range 20 {
				w.SetPath(upstreamSocketAddr(i), serverAddr, simnet.Weather{Latency: 2500 * time.Millisecond})
				players = append(players, w.join(codec.Hello{}))
			}
			w.Run(2 * time.Second)
			for i := range players {
				w.SetPath(upstreamSocketAddr(i), serverAddr, simnet.Weather{Latency: 5 * time.Millisecond})
			}
			w.Run(10 * time.Second)
			for i, p := range players {
				if p.find(codec.Connected) == nil || p.gone() {
					t.Errorf("player %d is connected: %v, gone: %v", i, p.find(codec.Connected) != nil, p.gone())
				}
			}
		})
	}
}

// TestEndOfAStream asserts that a stream's end without a goodbye ends the session. The other side learns of it at
// once.
func TestEndOfAStream(t *testing.T) {
	t.Run("the client's", func(t *testing.T) {
		w := streamWorld(t, func(*Route) {})
		p := w.connect(codec.Hello{})
		w.CloseStream(p.addr, listenerAddr)
		server := w.servers[0].peers[0]
		w.await("told", time.Second, server.gone)
		w.await("forgotten", time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
		if w.Run(time.Second); len(w.tcpServers[0].ended) != 1 {
			t.Error("the proxy keeps its stream to the server")
		}
	})
	t.Run("the server's", func(t *testing.T) {
		w := streamWorld(t, func(*Route) {})
		p := w.connect(codec.Hello{})
		w.CloseStream(serverAddr, upstreamSocketAddr(0))
		w.await("told", time.Second, p.gone)
		if end := p.find(codec.Disconnected); end.Reason != codec.ServerStopped {
			t.Errorf("told %v, want server-stopped", end.Reason)
		}
		w.await("forgotten", time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
	})
}

// TestClientComesAgainByStream lets a client return from the same address after the end of its last stream. It gets a
// new session.
func TestClientComesAgainByStream(t *testing.T) {
	w := streamWorld(t, func(*Route) {})
	p := w.connect(codec.Hello{})
	w.send(&p.peer, codec.Message{Payload: []byte("1"), Mode: codec.Reliable, ID: 1, HasID: true})
	w.await("answered", time.Second, func() bool { return len(p.received()) == 1 })
	p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("forgotten", 5*time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
	w.Run(time.Second)
	w.Remove(p.addr)
	w.players = 0 // the next player has the same address
	again := w.connect(codec.Hello{})
	w.send(&again.peer, codec.Message{Payload: []byte("2"), Mode: codec.Reliable, ID: 1, HasID: true})
	w.await("answered", time.Second, func() bool { return len(again.received()) == 1 })
	if len(w.servers[0].peers) != 2 || string(again.received()[0].Payload) != "2" {
		t.Errorf("%d sessions at the server, received %v", len(w.servers[0].peers), again.received())
	}
}
