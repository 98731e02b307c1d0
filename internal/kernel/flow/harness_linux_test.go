package flow

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/kernel"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
)

// lab is a proxy between a client and a server: three hosts on two cables. The proxy's sockets are open but unread, so
// that datagrams which arrive elsewhere came through the kernel.
type lab struct {
	t                                *testing.T
	clientNS, proxyNS, serverNS      *netlab.Namespace
	table                            *Table
	flow                             Flow
	client, listener, source, server *net.UDPConn
}

// addresses are a lab's addresses, of one family.
type addresses struct{ client, listener, source, server string }

var (
	overIPv4 = addresses{"10.1.0.1", "10.1.0.2", "10.2.0.2", "10.2.0.1"}
	overIPv6 = addresses{"fd01::1", "fd01::2", "fd02::2", "fd02::1"}
)

func newLab(t *testing.T, a addresses) *lab {
	t.Helper()
	l := &lab{t: t, clientNS: netlab.New(t, "client"), proxyNS: netlab.New(t, "proxy"), serverNS: netlab.New(t, "server")}
	netlab.Cable(l.clientNS, "eth0", l.proxyNS, "front")
	netlab.Cable(l.serverNS, "eth0", l.proxyNS, "back")
	length := "/24"
	if strings.Contains(a.client, ":") {
		length = "/64"
	}
	l.clientNS.Address("eth0", a.client+length)
	l.proxyNS.Address("front", a.listener+length)
	l.proxyNS.Address("back", a.source+length)
	l.serverNS.Address("eth0", a.server+length)
	l.client = l.open(l.clientNS, a.client)
	l.server = l.open(l.serverNS, a.server)
	l.listener = l.open(l.proxyNS, a.listener)
	l.source = l.open(l.proxyNS, a.source)
	l.flow = Flow{addrOf(l.client), addrOf(l.listener), addrOf(l.source), addrOf(l.server)}
	// The kernel adds IPv6 routes when a cable carries its first bit. That change would end a flow.
	l.settles(l.open(l.clientNS, a.client), l.open(l.proxyNS, a.listener))
	l.settles(l.open(l.serverNS, a.server), l.open(l.proxyNS, a.source))
	l.table = l.newTable(Options{Flows: 16})
	return l
}

// settles waits until datagrams pass from one socket to another.
func (l *lab) settles(from, to *net.UDPConn) {
	l.t.Helper()
	for b, tries := make([]byte, 1), 0; ; tries++ {
		l.send(from, addrOf(to), []byte("?"))
		if err := to.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			l.t.Fatal(err)
		}
		if _, err := to.Read(b); err == nil {
			return
		}
		if tries > 50 {
			l.t.Fatal("the cable carries nothing")
		}
	}
}

// newTable creates a table in the proxy's namespace, or skips the test if the kernel refuses.
func (l *lab) newTable(o Options) (table *Table) {
	l.t.Helper()
	var err error
	l.proxyNS.Do(func() { table, err = New(o) })
	if unavailable := (*kernel.Unavailable)(nil); errors.As(err, &unavailable) {
		l.t.Skip(err)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := table.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return table
}

func (l *lab) open(ns *netlab.Namespace, ip string) *net.UDPConn {
	l.t.Helper()
	var conn *net.UDPConn
	var err error
	ns.Do(func() { conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(ip)}) })
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	return conn
}

func addrOf(conn *net.UDPConn) netip.AddrPort { return conn.LocalAddr().(*net.UDPAddr).AddrPort() }

func (l *lab) add(r Rate) {
	l.t.Helper()
	if err := l.tryAdd(l.flow, r); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) tryAdd(f Flow, r Rate) (err error) {
	l.proxyNS.Do(func() { err = l.table.Add(f, r) })
	return err
}

// send sends from one socket to another socket's address.
func (l *lab) send(from *net.UDPConn, to netip.AddrPort, payload []byte) {
	l.t.Helper()
	if _, err := from.WriteToUDPAddrPort(payload, to); err != nil {
		l.t.Fatal(err)
	}
}

// arrives waits for a datagram and checks its payload and its source address.
func (l *lab) arrives(at *net.UDPConn, from netip.AddrPort, payload []byte) {
	l.t.Helper()
	if err := at.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		l.t.Fatal(err)
	}
	b := make([]byte, 70_000)
	n, sender, err := at.ReadFromUDPAddrPort(b)
	if err != nil {
		l.t.Fatalf("nothing came: %v", err)
	}
	if got := netip.AddrPortFrom(sender.Addr().Unmap(), sender.Port()); got != from || string(b[:n]) != string(payload) {
		l.t.Fatalf("%d bytes from %v, want %d from %v", n, got, len(payload), from)
	}
}

// echo sends a datagram there and back through the kernel.
func (l *lab) echo(payload []byte) {
	l.t.Helper()
	l.send(l.client, l.flow.Listener, payload)
	l.arrives(l.server, l.flow.Source, payload)
	l.send(l.server, l.flow.Source, payload)
	l.arrives(l.client, l.flow.Listener, payload)
}

// quiet checks that a socket has received nothing, by sending a later datagram to it.
func (l *lab) quiet(conn *net.UDPConn) {
	l.t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		l.t.Fatal(err)
	}
	b := make([]byte, 70_000)
	if n, from, err := conn.ReadFromUDPAddrPort(b); err == nil {
		l.t.Fatalf("%d bytes from %v, want nothing", n, from)
	}
}
