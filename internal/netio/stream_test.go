package netio_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/netio"
)

func TestStreamEcho(t *testing.T) {
	for _, prefix := range []netio.Prefix{netio.LengthU16LE, netio.LengthI32LE} {
		eachBackend(t, func(t *testing.T, o netio.Options) {
			l := newLoop(t, o)
			so := netio.StreamOptions{Prefix: prefix}
			listener := l.listenStream(so)
			listener.SetOwner("the listener's")
			client := l.dialStream(listener.Addr(), so)
			for _, n := range []int{1, 2, 1000, netio.MaxDatagram} { // the first are sent before the connection is established
				l.send(client, netip.AddrPort{}, strings.Repeat("x", n))
			}
			l.Flush()
			l.untilReceived(4)
			server := l.received[0].socket
			if server == listener || server.Owner() != "the listener's" || server.Peer() != l.received[0].from {
				t.Fatalf("came by %v, owner %v, peer %v", server, server.Owner(), server.Peer())
			}
			if !server.Peer().IsValid() || client.Peer() != listener.Addr() || server.Addr() != listener.Addr() {
				t.Errorf("server %v of %v, client of %v", server.Addr(), server.Peer(), client.Peer())
			}
			for i, n := range []int{1, 2, 1000, netio.MaxDatagram} {
				if len(l.received[i].datagram) != n {
					t.Errorf("frame %d has %d bytes, want %d", i, len(l.received[i].datagram), n)
				}
			}
			l.send(server, netip.AddrPort{}, "and back")
			l.Flush()
			l.untilReceived(5)
			if got, want := l.received[4], (received{client, client.Peer(), "and back"}); got != want {
				t.Errorf("client received %+v, want %+v", got, want)
			}
			l.send(listener, server.Peer(), "to a listener") // which has no peer
			l.Flush()
		})
	}
}

// TestStreamFrameOutOfBounds checks that a length out of bounds ends the connection at once, after the frames before
// it.
func TestStreamFrameOutOfBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		prefix netio.Prefix
		header string
	}{
		{"2.0, empty", netio.LengthU16LE, "\x00\x00"},
		{"2.0, too long", netio.LengthU16LE, "\x65\x00"},
		{"2.0, HTTP", netio.LengthU16LE, "GET / HTTP/1.1\r\n"},
		{"2.2, empty", netio.LengthI32LE, "\x00\x00\x00\x00"},
		{"2.2, too long", netio.LengthI32LE, "\x65\x00\x00\x00"},
		{"2.2, negative", netio.LengthI32LE, "\xff\xff\xff\xff"},
		{"2.2, huge", netio.LengthI32LE, "\xff\xff\xff\x7f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, o netio.Options) {
				l := newLoop(t, o)
				conn := netConn(t, l.listenStream(netio.StreamOptions{Prefix: c.prefix, MaxFrame: 100}).Addr())
				good := "\x01\x00!"
				if c.prefix == netio.LengthI32LE {
					good = "\x01\x00\x00\x00!"
				}
				write(t, conn, []byte(good+c.header))
				if err := l.untilFailed(1); !errors.Is(err, netio.ErrFrame) {
					t.Errorf("told %v, want ErrFrame", err)
				}
				if len(l.received) != 1 || l.Stats().Streams.BadFrames != 1 {
					t.Errorf("received %d frames, counted %+v", len(l.received), l.Stats().Streams)
				}
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Error("the connection is still open")
				}
			})
		})
	}
}

// TestStreamEnds checks that the frames before the end of a stream are delivered, and then the end, once.
func TestStreamEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		after string // the start of a frame
		reset bool
	}{{"in order", "", false}, {"within a frame", "\x05\x00ab", false}, {"by a reset", "", true}} {
		t.Run(c.name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, o netio.Options) {
				l := newLoop(t, o)
				conn := netConn(t, l.listenStream(netio.StreamOptions{}).Addr())
				write(t, conn, append(framed("hello"), c.after...))
				l.untilReceived(1) // before a reset, which discards unread input
				if c.reset {
					_ = conn.SetLinger(0)
				}
				_ = conn.Close()
				err := l.untilFailed(1)
				if !c.reset && !errors.Is(err, netio.ErrEnded) || c.reset && errors.Is(err, netio.ErrEnded) {
					t.Errorf("told %v", err)
				}
				if got := l.received; len(got) != 1 || got[0].socket != l.failed[0].socket || got[0].datagram != "hello" {
					t.Errorf("received %+v, then the end of %v", got, l.failed[0].socket)
				}
				l.send(l.failed[0].socket, netip.AddrPort{}, "to a closed socket")
				sendByNet(t, l.listen(loopback).Addr(), "later")
				l.untilReceived(2)
				if len(l.failed) != 1 || l.Stats().Streams.Ended != 1 {
					t.Errorf("told %d times, counted %d", len(l.failed), l.Stats().Streams.Ended)
				}
			})
		})
	}
}

// TestHalfClosedStreamEnds checks that a stream ends when its peer has sent its last byte, even if the peer still
// reads.
func TestHalfClosedStreamEnds(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		conn := netConn(t, l.listenStream(netio.StreamOptions{}).Addr())
		write(t, conn, framed("bye"))
		_ = conn.CloseWrite()
		if err := l.untilFailed(1); !errors.Is(err, netio.ErrEnded) || len(l.received) != 1 {
			t.Errorf("told %v after %d frames", err, len(l.received))
		}
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the half-closed peer reads %v, want the end", err)
		}
	})
}

func TestStreamRefused(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		listener := l.listenStream(netio.StreamOptions{})
		listener.Close()
		client := l.dialStream(listener.Addr(), netio.StreamOptions{})
		l.send(client, netip.AddrPort{}, "hello?")
		if err := l.untilFailed(1); !errors.Is(err, netio.ErrRefused) {
			t.Errorf("told %v, want ErrRefused", err)
		}
	})
}

func TestCloseOfAStreamSendsWhatIsQueued(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		conn := netConn(t, l.listenStream(netio.StreamOptions{}).Addr())
		write(t, conn, framed("hello"))
		l.onDatagram = func(s netio.Socket, _ netip.AddrPort, _ []byte) {
			l.send(s, netip.AddrPort{}, "goodbye")
			s.Close()
			s.Close()
			l.send(s, netip.AddrPort{}, "too late")
		}
		l.untilReceived(1)
		write(t, conn, framed("still talking")) // unread here: the peer must still get the goodbye
		var got []byte
		l.inBackground("the goodbye", func() { got, _ = io.ReadAll(conn) })
		if string(got) != string(framed("goodbye")) {
			t.Errorf("the peer read %q, want the goodbye and the end", got)
		}
		if len(l.received) != 1 || len(l.failed) != 0 {
			t.Errorf("heard of a closed stream: %+v %+v", l.received[1:], l.failed)
		}
	})
}

// TestSlowReader checks that a slow reader gets everything in order. A reader that is too slow is closed, and no more
// than Backlog is kept.
func TestSlowReader(t *testing.T) {
	const frame, limit = 4000, 64 << 10
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		listener := l.listenStream(netio.StreamOptions{Backlog: limit})
		reader, stuck := netConn(t, listener.Addr()), netConn(t, listener.Addr())
		write(t, reader, framed("reader"))
		write(t, stuck, framed("stuck"))
		l.untilReceived(2)
		sockets := map[string]netio.Socket{}
		for _, r := range l.received {
			sockets[r.datagram] = r.socket
		}
		sent := 0
		l.until("the stuck one to be given up", func() bool {
			l.send(sockets["stuck"], netip.AddrPort{}, strings.Repeat("s", frame))
			l.Flush()
			sent++
			l.Wake()
			return len(l.failed) > 0
		})
		if err := l.failed[0].err; !errors.Is(err, netio.ErrSlow) || l.failed[0].socket != sockets["stuck"] {
			t.Errorf("told %v of %v", err, l.failed[0].socket)
		}
		if got := l.Stats().Streams.Slow; got != 1 || sent*frame < limit {
			t.Errorf("Slow = %d after %d bytes", got, sent*frame)
		}
		for i := range 12 {
			l.send(sockets["reader"], netip.AddrPort{}, fmt.Sprint(i)+strings.Repeat("r", frame))
		}
		l.Flush()
		sockets["reader"].Close()
		var got []byte
		l.inBackground("all to be read", func() { got, _ = io.ReadAll(reader) })
		if want := 12*(frame+3) + 2; len(got) != want {
			t.Errorf("the slow reader read %d bytes, want %d", len(got), want)
		}
	})
}

// TestRefusalIsReadAfterWritingFails checks that a server's last words are read, even if the client has continued to
// send.
func TestRefusalIsReadAfterWritingFails(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		listener := netListener(t)
		client := l.dialStream(netip.MustParseAddrPort(listener.Addr().String()), netio.StreamOptions{})
		l.send(client, netip.AddrPort{}, "hello")
		l.Flush()
		var server *net.TCPConn
		l.inBackground("the server", func() {
			server = acceptNet(t, listener)
			_, _ = server.Read(make([]byte, 7))
		})
		write(t, server, framed("refused"))
		_ = server.Close()
		for range 3 {
			l.send(client, netip.AddrPort{}, "still there?")
			l.Flush()
		}
		l.untilFailed(1)
		if len(l.received) != 1 || l.received[0].datagram != "refused" {
			t.Errorf("received %+v before %v, want the refusal", l.received, l.failed[0].err)
		}
	})
}
