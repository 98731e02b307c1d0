package flow

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"tidegate/internal/kernel"
)

func forFamilies(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Run("IPv4", func(t *testing.T) { f(t, newLab(t, overIPv4)) })
	t.Run("IPv6", func(t *testing.T) { f(t, newLab(t, overIPv6)) })
}

// TestForward sends datagrams of several lengths, also odd ones, in both directions, and checks that the proxy's
// sockets receive nothing.
func TestForward(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{})
		sizes := []int{1, 2, 63, 200, 1201, 1452}
		var bytesSent uint64
		for _, size := range sizes {
			l.echo(bytes.Repeat([]byte{0xa5}, size))
			bytesSent += uint64(size)
		}
		l.quiet(l.listener)
		l.quiet(l.source)
		usage, ok := l.table.Usage(l.flow)
		want := Count{Packets: uint64(len(sizes)), Bytes: bytesSent}
		if !ok || usage.FromClient != want || usage.FromServer != want {
			t.Errorf("usage is %+v, %t, want %+v both directions", usage, ok, want)
		}
		totals, err := l.table.Totals()
		if err != nil || totals.FromClient != want || totals.FromServer != want {
			t.Errorf("totals are %+v, %v, want %+v both directions", totals, err, want)
		}
	})
}

// TestDelete checks that a flow ends at once, that its last traffic is returned, and that it can be added again.
func TestDelete(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{})
		l.echo([]byte("in the kernel"))
		last, ok := l.table.Delete(l.flow)
		if want := (Count{Packets: 1, Bytes: 13}); !ok || last.FromClient != want || last.FromServer != want {
			t.Errorf("last traffic is %+v, %t, want %+v both directions", last, ok, want)
		}
		l.send(l.client, l.flow.Listener, []byte("to user space"))
		l.arrives(l.listener, l.flow.Client, []byte("to user space"))
		l.send(l.server, l.flow.Source, []byte("to user space"))
		l.arrives(l.source, l.flow.Server, []byte("to user space"))
		l.quiet(l.server)
		l.quiet(l.client)
		if _, ok := l.table.Delete(l.flow); ok {
			t.Error("a flow was deleted twice")
		}
		if _, ok := l.table.Usage(l.flow); ok {
			t.Error("a deleted flow has a usage")
		}
		l.add(Rate{})
		l.echo([]byte("in the kernel again"))
	})
}

// TestStrangers checks that only datagrams between the flow's four addresses are forwarded.
func TestStrangers(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{})
		other := l.open(l.clientNS, l.flow.Client.Addr().String())
		l.send(other, l.flow.Listener, []byte("stranger"))
		l.arrives(l.listener, addrOf(other), []byte("stranger"))
		server := l.open(l.serverNS, l.flow.Server.Addr().String())
		l.send(server, l.flow.Source, []byte("stranger"))
		l.arrives(l.source, addrOf(server), []byte("stranger"))
		l.quiet(l.server)
		l.quiet(l.client)
	})
}

// TestRecords checks that a flow of DTLS leaves ICE's checks, alerts and all else to the sockets.
func TestRecords(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{Records: true})
		for _, first := range []byte{20, 22, 23, 25, 32, 63} {
			l.echo([]byte{first, 0xfe, 0xfd})
		}
		for _, first := range []byte{0, 1, 3, 19, 21, 64, 0x84, 0xff} {
			l.send(l.client, l.flow.Listener, []byte{first})
			l.arrives(l.listener, l.flow.Client, []byte{first})
			l.send(l.server, l.flow.Source, []byte{first})
			l.arrives(l.source, l.flow.Server, []byte{first})
		}
		l.quiet(l.server)
		l.quiet(l.client)
	})
}

// TestRate checks that the rate bounds the client's burst and not the server's.
func TestRate(t *testing.T) {
	forFamilies(t, func(t *testing.T, l *lab) {
		l.add(Rate{Packets: 1, PacketBurst: 3}) // the test takes less than the second until the next refill
		for range 5 {
			l.send(l.client, l.flow.Listener, []byte("flood"))
			l.send(l.server, l.flow.Source, []byte("answer"))
		}
		for range 3 {
			l.arrives(l.server, l.flow.Source, []byte("flood"))
		}
		for range 5 {
			l.arrives(l.client, l.flow.Listener, []byte("answer"))
		}
		l.quiet(l.server)
		l.quiet(l.listener)
		usage, _ := l.table.Usage(l.flow)
		if want := (Count{Packets: 3, Bytes: 15, Dropped: 2}); usage.FromClient != want {
			t.Errorf("usage is %+v, want %+v", usage.FromClient, want)
		}
		if totals, err := l.table.Totals(); err != nil || totals.FromClient != usage.FromClient {
			t.Errorf("totals are %+v, %v, want %+v", totals.FromClient, err, usage.FromClient)
		}
	})
}

// TestByteRate checks the limit of bytes. One datagram may exceed it.
func TestByteRate(t *testing.T) {
	l := newLab(t, overIPv4)
	l.add(Rate{Bytes: 100, ByteBurst: 2100}) // the test takes less than the 9 s until the next refill
	payload := bytes.Repeat([]byte("b"), 1000)
	for range 5 {
		l.send(l.client, l.flow.Listener, payload)
	}
	l.send(l.server, l.flow.Source, payload)
	l.arrives(l.client, l.flow.Listener, payload)
	usage, _ := l.table.Usage(l.flow)
	if want := (Count{Packets: 3, Bytes: 3000, Dropped: 2}); usage.FromClient != want {
		t.Errorf("usage is %+v, want %+v", usage.FromClient, want)
	}
}

// TestFull fills a table and checks that a freed place can be used again.
func TestFull(t *testing.T) {
	l := newLab(t, overIPv4)
	l.table = l.newTable(Options{Flows: 2})
	flows := []Flow{l.flow, l.flow, l.flow}
	for i := range flows {
		flows[i].Client = netip.AddrPortFrom(l.flow.Client.Addr(), 1000+uint16(i))
		flows[i].Source = netip.AddrPortFrom(l.flow.Source.Addr(), 1000+uint16(i))
	}
	for i, want := range []error{nil, nil, ErrFull} {
		if err := l.tryAdd(flows[i], Rate{}); !errors.Is(err, want) {
			t.Fatalf("flow %d: %v, want %v", i, err, want)
		}
	}
	if _, ok := l.table.Usage(flows[2]); ok {
		t.Error("a flow that had no room is there by half")
	}
	l.table.Delete(flows[0])
	if err := l.tryAdd(flows[2], Rate{}); err != nil {
		t.Error(err)
	}
}

// TestNoRoute checks that Add refuses flows that the kernel cannot forward, and gives the reason.
func TestNoRoute(t *testing.T) {
	l := newLab(t, overIPv4)
	const unknown = "wildcard address or unknown port"
	to := netip.MustParseAddrPort
	for _, test := range []struct {
		what   string
		change func(f *Flow)
		want   string
	}{
		{"wildcard", func(f *Flow) { f.Listener = to("0.0.0.0:7777") }, unknown},
		{"no port", func(f *Flow) { f.Server = to("10.2.0.1:0") }, unknown},
		{"families", func(f *Flow) { f.Server, f.Source = to("[fd01::1]:1"), to("[fd01::2]:1") },
			"IPv4 on one side and IPv6 on the other"},
		{"no route", func(f *Flow) { f.Server = to("203.0.113.9:1") },
			"route to the server: no route from 10.2.0.2 to 203.0.113.9: network is unreachable"},
		{"not our source", func(f *Flow) { f.Source = to("203.0.113.9:1") },
			"route to the server: no route from 203.0.113.9 to 10.2.0.1: network is unreachable"},
	} {
		f := l.flow
		test.change(&f)
		if err := l.tryAdd(f, Rate{}); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		}
	}
	f := l.flow
	f.Server = to("203.0.113.9:1")
	if unavailable := (*kernel.Unavailable)(nil); !errors.As(l.tryAdd(f, Rate{}), &unavailable) {
		t.Error("a flow without a route is not told as unavailable")
	}
}
