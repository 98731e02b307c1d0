package netio_test

import (
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"tidegate/internal/netio"
)

// nobody returns an address of loopback at which nobody listens.
func nobody(l *loop) netip.AddrPort {
	if runtime.GOOS == "windows" {
		l.t.Skip("Windows does not tell who is not there")
	}
	s := l.listen(loopback)
	s.Close()
	return s.Addr()
}

// Whoever decides what refusals mean wants to count them.
func TestEachRefusalIsTold(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		client := l.dial(nobody(l))
		for told := 1; told <= 3; told++ {
			l.send(client, netip.AddrPort{}, "hello?")
			l.Flush()
			l.until("a refusal", func() bool { return len(l.failed) == told })
			if last := l.failed[told-1]; last.socket != client || !errors.Is(last.err, netio.ErrRefused) {
				t.Errorf("told %+v, want ErrRefused of the client", last)
			}
		}
		if got := l.Stats().Refused; got != 3 {
			t.Errorf("counted %d refusals, want 3", got)
		}
	})
}

func TestFailedHandlerMayCloseTheSocket(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		gone := nobody(l)
		clients := map[netio.Socket]bool{l.dial(gone): true, l.dial(gone): true}
		l.onFailed = func(s netio.Socket) {
			s.Close()
			delete(clients, s)
		}
		l.until("all refused and closed", func() bool {
			for c := range clients {
				l.send(c, netip.AddrPort{}, "hello?")
			}
			l.Flush()
			return len(clients) == 0
		})
	})
}

// A listening socket serves many; that one of them is gone is no news.
func TestListeningSocketsDoNotFail(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		gone := nobody(l)
		client := l.dial(server.Addr())
		for range 3 {
			l.send(server, gone, "anyone?")
			l.Flush()
		}
		l.send(client, netip.AddrPort{}, "still there?")
		l.Flush()
		l.untilReceived(1)
		if got := l.Stats(); len(l.failed) != 0 || got.Refused != 0 || got.Errors != 0 {
			t.Errorf("told %v, stats %+v; want no failure", l.failed, got)
		}
	})
}

// An incoming datagram that is too long is counted and does not stand in the way of the next.
func TestIncomingTooLarge(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		for _, n := range []int{netio.MaxDatagram + 1, 9000, 5} {
			sendByNet(t, server.Addr(), strings.Repeat("x", n))
		}
		l.untilReceived(1)
		if got := l.received[0].datagram; got != "xxxxx" {
			t.Errorf("received %d bytes, want the 5 of the datagram that fits", len(got))
		}
		if got := l.Stats(); got.Truncated != 2 || got.In.Datagrams != 1 {
			t.Errorf("stats %+v, want 2 truncated and 1 received", got)
		}
	})
}
