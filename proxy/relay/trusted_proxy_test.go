package relay

import (
	"net/netip"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/proxyproto"
	"tidegate/proxy/stats"
)

// balancer returns the address of a trusted proxy's n-th socket.
func balancer(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(n >> 8), byte(n)}), 4000)
}

// trusting makes a Relay with a listener in ModeRelay that trusts proxies in 10.9.0.0/16.
func trusting(t *testing.T) *plainRelay {
	return newPlainRelay(t, Any, func(s *Settings) {
		s.Listeners[0].ProxiesFrom = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
	})
}

func headed(h proxyproto.Header, payload string) []byte { return append(h.Append(nil), payload...) }

func TestUntrustedHeaders(t *testing.T) {
	p := trusting(t)
	h := proxyproto.Header{Client: playerAddr(9), Proxy: listenerAddr}
	p.swallow(playerAddr(1), listenerAddr, headed(h, "x"), stats.DropUntrusted)
	p.up(1, 0, serverAddr, []byte("a client that comes by itself"))
	p.swallow(playerAddr(1), listenerAddr, headed(h, "x"), stats.DropUntrusted)
	p.swallow(balancer(1), listenerAddr, []byte("whose?"), stats.DropUntold)
	p.swallow(balancer(1), listenerAddr, headed(h, "x")[:20], stats.DropMalformed)
	h.Client = netip.AddrPortFrom(h.Client.Addr(), 0)
	p.swallow(balancer(1), listenerAddr, headed(h, "x"), stats.DropSourcePort)
	p.swallow(balancer(1), listenerAddr, headed(proxyproto.Header{Local: true}, ""), stats.DropEmpty)
	if n := p.relay.table.Len(); n != 1 {
		t.Errorf("%d sessions, want that of the client alone", n)
	}
}

// send gives the Relay a datagram and returns the datagram that it passes on.
func (p *plainRelay) send(from, at netip.AddrPort, datagram []byte) simDatagram {
	p.t.Helper()
	p.out = p.out[:0]
	p.Receive(p.now, from, at, slices.Clone(datagram))
	if len(p.out) != 1 {
		p.t.Fatalf("%d datagrams came of one from %v; dropped %v", len(p.out), from, p.relay.counters.Drops)
	}
	return p.out[0]
}

// TestFirstHeaderCounts asserts that a proxy's datagrams without a header belong to the client in its last header.
// Answers go to the proxy. One socket may serve several clients if each datagram has a header.
func TestFirstHeaderCounts(t *testing.T) {
	p := trusting(t)
	h := proxyproto.Header{Client: playerAddr(1), Proxy: listenerAddr}
	first := p.send(balancer(1), listenerAddr, headed(h, "hello"))
	if string(first.bytes) != "hello" || first.to != serverAddr {
		t.Fatalf("the server was sent %q", first.bytes)
	}
	if got := p.send(balancer(1), listenerAddr, []byte("more")); string(got.bytes) != "more" || got.from != first.from {
		t.Errorf("without a header: %q by %v", got.bytes, got.from)
	}
	if got := p.send(serverAddr, first.from, []byte("answer")); got.to != balancer(1) || string(got.bytes) != "answer" {
		t.Errorf("the answer went to %v: %q", got.to, got.bytes)
	}
	h.Client = playerAddr(2)
	other := p.send(balancer(1), listenerAddr, headed(h, "other"))
	if other.from == first.from {
		t.Error("two clients of one proxy's socket share a session")
	}
	h.Client = playerAddr(1)
	if got := p.send(balancer(2), listenerAddr, headed(h, "moved")); got.from != first.from {
		t.Error("a client that another socket of the proxy serves has a new session")
	}
	if got := p.send(serverAddr, first.from, []byte("answer")); got.to != balancer(2) {
		t.Errorf("the answer went to %v, not by the client's last way", got.to)
	}
	if got := p.relay.Snapshot(p.now).Sessions; len(got) != 2 || got[0].Client != playerAddr(1) {
		t.Errorf("sessions: %+v", got)
	}
}

// TestSimpleHeadersComeBack asserts that answers to a header of the Simple Proxy Protocol carry the same header.
func TestSimpleHeadersComeBack(t *testing.T) {
	p := trusting(t)
	h := proxyproto.Header{Format: proxyproto.Simple, Client: playerAddr(1), Proxy: listenerAddr}
	up := p.send(balancer(1), listenerAddr, headed(h, "hello"))
	if got := p.send(serverAddr, up.from, []byte("hey")); got.to != balancer(1) ||
		string(got.bytes) != string(headed(h, "hey")) {
		t.Errorf("the answer to %v: %q", got.to, got.bytes)
	}
	p.swallow(serverAddr, up.from, make([]byte, codec.MaxDatagram), stats.DropTooLarge)

	// So do answers without a session.
	w := newWorldWith(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet6()), func(s *Settings) {
		s.Listeners[0].ProxiesFrom = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
	})
	ping := raknet6().(codec.Pinger).AppendPing(nil, 7)
	w.proxy.Receive(w.Now(), balancer(1), listenerAddr, append(h.Append(nil), ping...))
	if len(w.proxy.out) != 1 || w.proxy.out[0].to != balancer(1) {
		t.Fatalf("answers to a ping: %v", w.proxy.out)
	}
	if got, _, err := proxyproto.Parse(w.proxy.out[0].bytes); err != nil || got != h {
		t.Errorf("the pong has the header %+v, %v", got, err)
	}
}

// TestBoundedMemoryOfProxies asserts that the Relay remembers a proxy's sockets in use and forgets the others,
// however many there are.
func TestBoundedMemoryOfProxies(t *testing.T) {
	p := trusting(t)
	l := p.relay.listeners[0]
	h := proxyproto.Header{Client: playerAddr(1), Proxy: listenerAddr}
	p.send(balancer(0), listenerAddr, headed(h, "keep"))
	for i := range 10 * l.proxies.most {
		local := proxyproto.Header{Local: true}
		p.Receive(p.now, balancer(1+i), listenerAddr, headed(local, ""))
		if i%100 == 0 {
			p.send(balancer(0), listenerAddr, []byte("still here"))
		}
	}
	if n := len(l.proxies.recent) + len(l.proxies.older); n > 2*l.proxies.most {
		t.Errorf("%d are remembered, want at most %d", n, 2*l.proxies.most)
	}
	p.swallow(balancer(1), listenerAddr, []byte("whose?"), stats.DropUntold)
}
