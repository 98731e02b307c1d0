package netio_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/netio"
)

// sendByNet sends a datagram by a socket of package net.
func sendByNet(t *testing.T, to netip.AddrPort, datagram string) {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(datagram)); err != nil {
		t.Fatal(err)
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := l.dial(server.Addr())
		l.send(client, netip.AddrPort{}, "goodbye")
		client.Close()
		client.Close()
		l.send(client, netip.AddrPort{}, "too late")
		l.Flush()
		sendByNet(t, server.Addr(), "end")
		l.untilReceived(2)
		if l.received[0].datagram != "goodbye" || l.received[1].datagram != "end" {
			t.Errorf("received %v, want the goodbye and the end", l.received)
		}
	})
}

// TestCloseInHandler checks that the rest of a batch is not delivered to a handler that closed the socket.
func TestCloseInHandler(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		other := l.listen(loopback)
		client := l.dial(server.Addr())
		for i := range 20 {
			l.send(client, netip.AddrPort{}, fmt.Sprint(i))
		}
		l.Flush()
		l.onDatagram = func(s netio.Socket, _ netip.AddrPort, _ []byte) { s.Close() }
		l.untilReceived(1)
		sendByNet(t, other.Addr(), "end")
		l.untilReceived(2)
		if l.received[1].socket != other {
			t.Errorf("%q was received after the handler closed its socket", l.received[1].datagram)
		}
	})
}

// TestReplaceSocketsInHandler checks a handler that closes all sockets and opens others. The new ones may get the
// same descriptors, but no input of the old ones.
func TestReplaceSocketsInHandler(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		var old []netio.Socket
		for range 8 {
			s := l.listen(loopback)
			old = append(old, s)
			sendByNet(t, s.Addr(), "old")
		}
		var fresh []netio.Socket
		l.onDatagram = func(netio.Socket, netip.AddrPort, []byte) {
			if fresh != nil {
				return
			}
			for _, s := range old {
				s.Close()
			}
			for range old {
				fresh = append(fresh, l.listen(loopback))
				sendByNet(t, fresh[len(fresh)-1].Addr(), "fresh")
			}
		}
		l.untilReceived(1 + len(old))
		for _, r := range l.received[1:] {
			if r.datagram != "fresh" || !slices.Contains(fresh, r.socket) {
				t.Errorf("received %q by a socket that was replaced", r.datagram)
			}
		}
	})
}

// TestClosePollerSendsWhatIsQueued checks that queued datagrams leave when the Poller is closed.
func TestClosePollerSendsWhatIsQueued(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l, closing := newLoop(t, o), newLoop(t, o)
		server := l.listen(loopback)
		for range 3 {
			closing.send(closing.dial(server.Addr()), netip.AddrPort{}, "goodbye")
		}
		if err := closing.Close(); err != nil {
			t.Error(err)
		}
		l.untilReceived(3)
	})
}

func TestClosePollerInHandler(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		for range 3 {
			sendByNet(t, l.listen(loopback).Addr(), "x")
		}
		l.onDatagram = func(netio.Socket, netip.AddrPort, []byte) {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		l.untilReceived(1)
		if len(l.received) != 1 {
			t.Errorf("%d datagrams received, want none after Close", len(l.received)-1)
		}
	})
}
