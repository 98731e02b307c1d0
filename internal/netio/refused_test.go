package netio_test

import (
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"tidegate/internal/netio"
)

// closedPort returns an address of loopback with a closed port.
func closedPort(l *loop) netip.AddrPort {
	if runtime.GOOS == "windows" {
		l.t.Skip("Windows does not report closed ports")
	}
	s := l.listen(loopback)
	s.Close()
	return s.Addr()
}

// TestEachRefusalIsReported checks that each report of a closed port is counted and reported.
func TestEachRefusalIsReported(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		client := l.dial(closedPort(l))
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
		gone := closedPort(l)
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

// TestListeningSocketsDoNotFail checks that a listening socket, which serves many clients, gets no report when one of
// them is gone.
func TestListeningSocketsDoNotFail(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		gone := closedPort(l)
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

// TestIncomingTooLarge checks that an incoming datagram that is too long is counted, and does not affect the next
// one.
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
