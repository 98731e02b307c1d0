package relay

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
)

const openConnectionReply2 = 0x08

// halfMade makes a server answer nothing from its second reply on, to the first sockets of the proxy. The server
// keeps half of a connection for each of these, and does not hear them.
func (w *world) halfMade(sockets int, until time.Duration) {
	cut := func(at netip.AddrPort, loss float64) {
		w.SetPath(serverAddr, at, simnet.Weather{Loss: loss})
		w.SetPath(at, serverAddr, simnet.Weather{Loss: loss})
	}
	w.SetTap(func(from, to netip.AddrPort, datagram []byte) {
		isReply := from == serverAddr && datagram[0] == openConnectionReply2
		if isReply && slices.Contains(upstreamSockets(sockets), to) && w.Elapsed() < until {
			cut(to, 1)
			w.After(until-w.Elapsed(), func() { cut(to, 0) })
		}
	})
}

func upstreamSockets(n int) (all []netip.AddrPort) {
	for i := range n {
		all = append(all, upstreamSocketAddr(i))
	}
	return all
}

// TestRedial has a server that keeps half of a connection for ever. The proxy asks it again from other sockets, and
// then closes the unused ones.
func TestRedial(t *testing.T) {
	for lost := range mostRedials + 1 {
		for _, admit := range []policy.Admit{policy.UpstreamFirst, policy.ProofFirst} {
			route := defaultRoute(raknet6())
			route.Admit = admit
			w := newWorld(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, raknet6(), route)
			w.halfMade(lost, time.Hour)
			w.join(codec.Hello{Identity: 7})
			if !w.RunUntil(time.Duration(1+2*lost)*time.Second, func() bool { return w.proxy.relay.counters.Established == 1 }) {
				t.Fatalf("admit %d, %d second replies lost: not established after %v", admit, lost, w.Elapsed())
			}
			w.Run(100 * time.Millisecond) // for the last step to reach the server
			open := 0
			for at, s := range w.proxy.sockets {
				if at != listenerAddr && !s.closed {
					open++
				}
			}
			if got := w.proxy.relay.counters.Redialed; got != uint64(lost) || open != 1 || w.proxy.dialed != lost+1 {
				t.Errorf("%d second replies lost: redialed %d times, %d sockets dialed, %d open", lost, got, w.proxy.dialed, open)
			}
			server := w.servers[0]
			if last := server.peers[len(server.peers)-1]; last.find(codec.Connected) == nil {
				t.Errorf("the server's last connection saw %v", last.events)
			}
		}
	}
}

// TestRedialIsBounded has a server that grants no connection.
func TestRedialIsBounded(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, raknet6(), defaultRoute(raknet6()))
	w.halfMade(100, time.Hour)
	p := w.join(codec.Hello{})
	w.await("given up", 30*time.Second, p.gone)
	if w.proxy.dialed > 2*(mostRedials+1) || w.proxy.relay.counters.Redialed > 2*mostRedials {
		t.Errorf("%d sockets dialed, redialed %d times", w.proxy.dialed, w.proxy.relay.counters.Redialed)
	}
	w.await("over", 30*time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
	for at, s := range w.proxy.sockets {
		if at != listenerAddr && !s.closed {
			t.Errorf("the socket at %v is still open", at)
		}
	}
}

// TestRedialOfAKnownClient cuts a server off after its second reply, until the session has asked from another
// address. A server that allows each GUID once, as stock RakNet does, refuses that address. It accepts the first one
// again.
func TestRedialOfAKnownClient(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, raknet6(), defaultRoute(raknet6()))
	w.halfMade(1, 2500*time.Millisecond)
	second := upstreamSocketAddr(1)
	refusal := raknet6().Refuse(secondRequest(t), nil, codec.AlreadyConnected)
	w.SetPath(second, serverAddr, simnet.Weather{Loss: 1})
	w.After(2200*time.Millisecond, func() { w.Inject(0, serverAddr, second, refusal) })
	p := w.join(codec.Hello{Identity: 7})
	w.await("connected", 5*time.Second, func() bool { return p.find(codec.Connected) != nil })
	w.Run(100 * time.Millisecond) // for the last step to reach the server
	if socket := w.proxy.sockets[second]; w.proxy.dialed != 2 || !socket.closed {
		t.Errorf("%d sockets dialed; the second is closed: %v", w.proxy.dialed, socket.closed)
	}
	if got := w.servers[0].byAddr[upstreamSocketAddr(0)]; got == nil || got.find(codec.Connected) == nil {
		t.Error("the server does not have the client at its first address")
	}
}

// secondRequest returns a client's second request, in the form that Refuse expects.
func secondRequest(t *testing.T) []byte {
	t.Helper()
	w := newWorld(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet6()))
	var request []byte
	w.SetTap(func(_, to netip.AddrPort, datagram []byte) {
		if to == listenerAddr && datagram[0] == openConnectionReply2-1 {
			request = slices.Clone(datagram)
		}
	})
	w.connect(codec.Hello{})
	return request
}

// TestNoRedialInTheClientsName asserts that a session with the client's own address uses no other address, and
// continues to ask.
func TestNoRedialInTheClientsName(t *testing.T) {
	route := defaultRoute(raknet.New(raknet.Options{}))
	route.Upstream.Transport.Transparent = true
	w := newWorld(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, raknet6(), route)
	w.halfMade(1, 3*time.Second)
	p := w.join(codec.Hello{})
	w.await("connected", 6*time.Second, func() bool { return p.find(codec.Connected) != nil })
	if w.proxy.dialed != 1 || w.proxy.relay.counters.Redialed != 0 {
		t.Errorf("%d sockets dialed, redialed %d times", w.proxy.dialed, w.proxy.relay.counters.Redialed)
	}
}
