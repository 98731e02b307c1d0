package netio_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// peers are sockets of package net that send to a listener.
func peers(t *testing.T, n int, to netip.AddrPort) []*net.UDPConn {
	t.Helper()
	all := make([]*net.UDPConn, n)
	for i := range all {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		all[i] = conn
	}
	return all
}

func portOf(conn *net.UDPConn) netip.AddrPort {
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
}

// told counts datagrams by their sender and destination.
type told map[string]int

func (m told) Datagram(s netio.Socket, from netip.AddrPort, _ []byte) {
	m[fmt.Sprint(from, " ", s.Peer())]++
}
func (told) Failed(netio.Socket, error) {}

func newPoller(t *testing.T) netio.Poller {
	t.Helper()
	p, err := netio.New(netio.Options{Backend: netio.Epoll})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestHandover hands a listening socket over under load, and keeps half of the peers. No datagram is lost, and each
// one arrives at the owner of its sender.
func TestHandover(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		t.Run(at, func(t *testing.T) {
			old, fresh := newPoller(t), newPoller(t)
			s, err := old.Listen(netip.MustParseAddrPort(at), netio.SocketOptions{})
			if err != nil {
				t.Fatal(err)
			}
			to := s.Addr()
			if to.Addr().IsUnspecified() {
				to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
			}
			clients := peers(t, 20, to)
			sent := 0
			send := func() {
				for _, c := range clients {
					if _, err := c.Write([]byte{1}); err != nil {
						t.Fatal(err)
					}
					sent++
				}
			}
			atOld, atFresh := told{}, told{}
			send()
			for _, c := range clients[:10] {
				part, err := old.(netio.Handover).ConnectPeer(s, portOf(c), atOld)
				if err != nil {
					t.Fatal(err)
				}
				send()
				if part.Peer() != portOf(c) || part.Addr() != s.Addr() {
					t.Errorf("the socket is from %v to %v", part.Addr(), part.Peer())
				}
				old.Send(part, part.Peer(), []byte{2})
			}
			old.Flush()
			file, err := old.(netio.Handover).File(s)
			if err != nil {
				t.Fatal(err)
			}
			old.(netio.Handover).StopReceiving(s)
			send()
			if _, err := fresh.(netio.Handover).Adopt(file, netio.SocketOptions{}); err != nil {
				t.Fatal(err)
			}
			_ = file.Close()
			s.Close()
			send()
			turnUntil(t, old, atOld, "the old process's datagrams", func() bool {
				if err := fresh.Wait(time.Now()); err != nil {
					t.Fatal(err)
				}
				fresh.Receive(atFresh)
				return sum(atOld)+sum(atFresh) >= sent
			})
			for i, c := range clients {
				own := portOf(c).String()
				kept, given := atOld[own+" "+own], atFresh[own+" invalid AddrPort"]
				if i < 10 && kept < 3 || i >= 10 && (kept > 0 || given < 2) {
					t.Errorf("client %d: %d at its own socket, %d at the new process; all: %v %v", i, kept, given, atOld, atFresh)
				}
				if i < 10 {
					_ = c.SetReadDeadline(time.Now().Add(patience))
					if _, err := c.Read(make([]byte, 1)); err != nil {
						t.Errorf("client %d hears nothing: %v", i, err)
					}
				}
			}
		})
	}
}

func sum(m told) (n int) {
	for _, of := range m {
		n += of
	}
	return n
}

// TestHandoverOfStreams checks that new connections come to the new process, and that existing ones stay.
func TestHandoverOfStreams(t *testing.T) {
	old, fresh := newPoller(t), newPoller(t)
	options := netio.StreamOptions{Prefix: netio.LengthU16LE, MaxConns: 4, HelloTimeout: patience}
	s, err := old.ListenStream(loopback, options)
	if err != nil {
		t.Fatal(err)
	}
	atOld, atFresh := told{}, told{}
	connect := func() net.Conn {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte{1, 0, 7}); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	stays := connect()
	turnUntil(t, old, atOld, "the first connection", func() bool { return sum(atOld) == 1 })
	file, err := old.(netio.Handover).File(s)
	if err != nil {
		t.Fatal(err)
	}
	old.(netio.Handover).StopReceiving(s)
	if _, err := fresh.(netio.Handover).AdoptStream(file, options); err != nil {
		t.Fatal(err)
	}
	s.Close()
	connect()
	turnUntil(t, fresh, atFresh, "the second connection", func() bool { return sum(atFresh) == 1 })
	if _, err := stays.Write([]byte{1, 0, 8}); err != nil {
		t.Fatal(err)
	}
	turnUntil(t, old, atOld, "what the first still says", func() bool { return sum(atOld) == 2 })
	if _, err := fresh.(netio.Handover).Adopt(file, netio.SocketOptions{}); err == nil {
		t.Error("a TCP socket was taken for one of UDP")
	}
}

// TestHandoverOfDrops checks that the kernel's drops at a socket count once, for the process that listened then.
func TestHandoverOfDrops(t *testing.T) {
	const sent = 100
	old, fresh := newPoller(t), newPoller(t)
	s, err := old.Listen(loopback, netio.SocketOptions{ReceiveBuffer: 1})
	if err != nil {
		t.Fatal(err)
	}
	flood := func() {
		for range sent {
			if _, err := peers(t, 1, s.Addr())[0].Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	flood()
	before := old.Stats().KernelDrops
	file, err := old.(netio.Handover).File(s)
	if err != nil {
		t.Fatal(err)
	}
	old.(netio.Handover).StopReceiving(s)
	adopted, err := fresh.(netio.Handover).Adopt(file, netio.SocketOptions{ReceiveBuffer: 1})
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if got := fresh.Stats().KernelDrops; got != 0 {
		t.Errorf("%d drops count as the new process's before it listens", got)
	}
	flood()
	s.Close()
	if got, again := fresh.Stats().KernelDrops, old.Stats().KernelDrops; before == 0 || again != before || got == 0 ||
		got > sent {
		t.Errorf("drops of the old process: %d, later %d; of the new one %d", before, again, got)
	}
	adopted.Close()
}
