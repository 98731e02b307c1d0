package flow

import (
	"bytes"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
)

// TestSegments sends a run of datagrams as one packet, as a sender with UDP_SEGMENT does, and checks that they arrive
// separately.
func TestSegments(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{})
		option(t, l.client, 103, 500) // UDP_SEGMENT
		payload := bytes.Repeat([]byte("0123456789"), 420)
		l.send(l.client, l.flow.Listener, payload)
		for len(payload) > 0 {
			n := min(500, len(payload))
			l.arrives(l.server, l.flow.Source, payload[:n])
			payload = payload[n:]
		}
		usage, _ := l.table.Usage(l.flow)
		if want := (Count{Packets: 9, Bytes: 4200}); usage.FromClient != want {
			t.Errorf("usage is %+v, want %+v", usage.FromClient, want)
		}
	})
}

// TestFragments sends a datagram in fragments. It must reach the proxy's socket whole. A later datagram must do so only
// if it is fragmented too.
func TestFragments(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{})
		large := bytes.Repeat([]byte("large"), 1000)
		l.send(l.client, l.flow.Listener, large)
		l.arrives(l.listener, l.flow.Client, large)
		l.quiet(l.server)
		l.echo([]byte("small"))
	})
}

// TestSmallerMTU sends a datagram that exceeds the MTU of the server's network. It must reach the socket, which may
// fragment it.
func TestSmallerMTU(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.proxyNS.SetMTU("back", 1300)
		l.add(Rate{})
		large := bytes.Repeat([]byte("l"), 1400)
		l.send(l.client, l.flow.Listener, large)
		l.arrives(l.listener, l.flow.Client, large)
		option(t, l.client, 103, 1290) // each segment exceeds the MTU, too
		l.send(l.client, l.flow.Listener, bytes.Repeat([]byte("s"), 2580))
		for range 2 {
			l.arrives(l.listener, l.flow.Client, bytes.Repeat([]byte("s"), 1290))
		}
		option(t, l.client, 103, 0)
		l.quiet(l.server)
		l.echo(bytes.Repeat([]byte("f"), 1200))
	})
}

// TestNoSumOnTheWire sends datagrams without a UDP checksum between hosts.
func TestNoSumOnTheWire(t *testing.T) {
	l := newLab(t, overIPv4)
	l.add(Rate{})
	for _, conn := range []*net.UDPConn{l.client, l.server} {
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 11, 1) // SO_NO_CHECK
		}); err != nil {
			t.Fatal(err)
		}
	}
	l.echo([]byte("no sum"))
}

// TestSameHost puts the server, then the client, then both on the proxy's own host, with the host's addresses and with
// loopback addresses.
func TestSameHost(t *testing.T) {
	for _, family := range []struct {
		name string
		addresses
		loopback string
	}{{"IPv4", overIPv4, "127.0.0.1"}, {"IPv6", overIPv6, "::1"}} {
		t.Run(family.name, func(t *testing.T) {
			l := newLab(t, family.addresses)
			remote, listener := l.client, l.listener
			for _, test := range []struct {
				what                             string
				client, listener, source, server string // empty: on the other host
			}{
				{"server", "", "", family.source, family.source},
				{"server by the loopback", "", "", family.loopback, family.loopback},
				{"client", family.listener, family.listener, family.source, ""},
				{"client by the loopback", family.loopback, family.loopback, family.source, ""},
				{"both", family.listener, family.listener, family.source, family.source},
				{"both by the loopback", family.loopback, family.loopback, family.loopback, family.loopback},
			} {
				t.Run(test.what, func(t *testing.T) {
					l.t = t
					here := func(ip string, other *net.UDPConn) *net.UDPConn {
						if ip == "" {
							return other
						}
						return l.open(l.proxyNS, ip)
					}
					l.client, l.listener = here(test.client, remote), here(test.listener, listener)
					l.source = here(test.source, nil)
					l.server = here(test.server, nil)
					if test.server == "" {
						l.server = l.open(l.serverNS, family.server)
					}
					l.flow = Flow{addrOf(l.client), addrOf(l.listener), addrOf(l.source), addrOf(l.server)}
					l.add(Rate{})
					l.echo([]byte("hello"))
					l.echo(bytes.Repeat([]byte("x"), 1400))
					l.quiet(l.listener)
					l.quiet(l.source)
					if last, _ := l.table.Delete(l.flow); last.FromClient.Packets != 2 || last.FromServer.Packets != 2 {
						t.Errorf("last traffic is %+v, want 2 datagrams both directions", last)
					}
				})
			}
		})
	}
}

// TestChanges removes the routes of flows one by one. The datagrams must then reach the sockets, and the flows can be
// added again.
func TestChanges(t *testing.T) {
	l := newLab(t, overIPv4)
	l.serverNS.Address("eth0", "10.3.0.1/32")
	l.serverNS.Route("default", "10.2.0.2")
	l.proxyNS.Route("10.3.0.1/32", "10.2.0.1")
	l.server = l.open(l.serverNS, "10.3.0.1")
	l.flow.Server = addrOf(l.server)
	for _, test := range []struct {
		what   string
		change func()
	}{
		{"a surer route", func() { l.proxyNS.Address("back", "10.3.0.9/24") }},
		{"another default route", func() { l.proxyNS.Route("default", "10.2.0.1") }},
		{"a route that is gone", func() { l.proxyNS.Unroute("10.3.0.1/32") }},
		{"an interface that is down", func() { l.proxyNS.Down("back") }},
	} {
		t.Run(test.what, func(t *testing.T) {
			l.t = t
			l.add(Rate{})
			before := l.table.Changes()
			test.change()
			await.Until(t, "noticed", func() bool { return l.table.Changes() != before })
			if _, ok := l.table.Usage(l.flow); ok {
				t.Error("the flow is still there")
			}
			l.send(l.client, l.flow.Listener, []byte("where to"))
			l.arrives(l.listener, l.flow.Client, []byte("where to"))
		})
	}
	if err := l.tryAdd(l.flow, Rate{}); err == nil {
		t.Error("a flow was added by an interface that is down")
	}
}

// TestOwnedSource gives a session an address of its own, from a network that belongs to the proxy.
func TestOwnedSource(t *testing.T) {
	for _, test := range []struct {
		addresses
		network, source string
	}{{overIPv4, "10.77.0.0/16", "10.77.3.4"}, {overIPv6, "fd77::/64", "fd77::3:4"}} {
		l := newLab(t, test.addresses)
		l.proxyNS.Own(test.network)
		l.serverNS.Route(test.network, test.addresses.source)
		l.flow.Source = netip.AddrPortFrom(netip.MustParseAddr(test.source), 4242)
		l.add(Rate{})
		l.echo([]byte("from an address of its own"))
	}
}

// TestKnownHops checks that next hops are cached up to the bound, and that each change clears the cache.
func TestKnownHops(t *testing.T) {
	l := newLab(t, overIPv4)
	l.add(Rate{})
	r := l.table.routes
	if n := len(r.known); n != 2 {
		t.Fatalf("%d hops are known, want 2", n)
	}
	addr := l.flow.Client.Addr()
	for i := range maxKnown {
		r.known[[2]netip.Addr{addr, netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})}] = hop{}
	}
	_, err := r.find(l.flow.Listener.Addr(), netip.MustParseAddr("10.1.0.99"))
	if err != nil || len(r.known) > maxKnown+2 {
		t.Errorf("%v, %d hops are known", err, len(r.known))
	}
	r.notify(change{addr: addr}, func(change) {})
	if n := len(r.known); n != 0 {
		t.Errorf("%d hops are known after a change", n)
	}
}

// TestUnaffected checks that changes elsewhere leave a flow alone.
func TestUnaffected(t *testing.T) {
	l := newLab(t, overIPv4)
	l.add(Rate{})
	elsewhere := netlab.New(t, "elsewhere")
	netlab.Cable(l.proxyNS, "other", elsewhere, "eth0")
	l.proxyNS.Address("other", "10.8.0.1/24")
	l.proxyNS.Route("10.9.0.0/16", "10.8.0.2")
	l.proxyNS.Down("other")
	// The kernel reports changes in order: one that affects another flow comes last.
	other := l.flow
	other.Client, other.Source = netip.MustParseAddrPort("10.1.0.7:7777"), netip.MustParseAddrPort("10.2.0.2:7777")
	if err := l.tryAdd(other, Rate{}); err != nil {
		t.Fatal(err)
	}
	l.proxyNS.Route("10.1.0.7/32", "10.1.0.1")
	await.Until(t, "noticed", func() bool { return l.table.Changes() != 0 })
	if l.table.Changes() != 1 {
		t.Errorf("%d changes, want one", l.table.Changes())
	}
	l.echo([]byte("still there"))
}

// TestClose checks that a closed table, as of an ended process, leaves nothing in the kernel.
func TestClose(t *testing.T) {
	l := newLab(t, overIPv4)
	table := l.newTable(Options{Flows: 1})
	l.table = table
	l.add(Rate{})
	l.echo([]byte("in the kernel"))
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	l.send(l.client, l.flow.Listener, []byte("to user space"))
	l.arrives(l.listener, l.flow.Client, []byte("to user space"))
}

func option(t *testing.T, conn *net.UDPConn, name, value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, name, value)
	}); err != nil {
		t.Fatal(err)
	}
	if set != nil {
		t.Fatal(set)
	}
}
