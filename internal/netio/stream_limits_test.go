package netio_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// TestHelloTimeout checks that a connection without a complete frame ends after HelloTimeout, and that one with a
// frame stays.
func TestHelloTimeout(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		const hello = 300 * time.Millisecond // longer than a busy machine delays a read
		listener := l.listenStream(netio.StreamOptions{HelloTimeout: hello})
		start := time.Now()
		silent, half, polite := netConn(t, listener.Addr()), netConn(t, listener.Addr()), netConn(t, listener.Addr())
		write(t, half, framed("hello")[:4])
		write(t, polite, framed("hello"))
		l.untilFailed(2)
		if took := time.Since(start); took < hello {
			t.Errorf("ended after %v", took)
		}
		for _, f := range l.failed {
			if !errors.Is(f.err, netio.ErrSilent) || f.socket == l.received[0].socket {
				t.Errorf("told %v of %v", f.err, f.socket.Peer())
			}
		}
		for _, conn := range []interface{ Read([]byte) (int, error) }{silent, half} {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("a silent connection is still open")
			}
		}
		write(t, polite, framed("again"))
		l.untilReceived(2)
		if got := l.Stats().Streams; got.Silent != 2 || got.Accepted != 3 {
			t.Errorf("counted %+v", got)
		}
	})
}

// TestAwaitHello checks that a connection with AwaitHello for every frame ends after HelloTimeout, and that a
// later frame without AwaitHello keeps it.
func TestAwaitHello(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		const hello = 300 * time.Millisecond // longer than a busy machine delays a read
		listener := l.listenStream(netio.StreamOptions{HelloTimeout: hello})
		l.onDatagram = func(s netio.Socket, _ netip.AddrPort, frame []byte) {
			if string(frame) == "nothing" {
				s.(netio.AcceptedStream).AwaitHello()
			}
		}
		start := time.Now()
		idle, late := netConn(t, listener.Addr()), netConn(t, listener.Addr())
		write(t, idle, append(framed("nothing"), framed("nothing")...))
		write(t, late, append(framed("nothing"), framed("something")...))
		l.untilReceived(4)
		l.untilFailed(1)
		if took := time.Since(start); took < hello || !errors.Is(l.failed[0].err, netio.ErrSilent) {
			t.Errorf("told %v after %v", l.failed[0].err, took)
		}
		if _, err := idle.Read(make([]byte, 1)); err == nil {
			t.Error("the idle connection is still open")
		}
		write(t, late, framed("nothing")) // it has completed its hello before
		l.untilReceived(5)
		if got := l.Stats().Streams.Silent; got != 1 {
			t.Errorf("%d ended as silent, want 1", got)
		}
	})
}

// TestMaxConns checks that connections beyond MaxConns are closed at once, and that there is room again when one has
// ended.
func TestMaxConns(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		listener := l.listenStream(netio.StreamOptions{MaxConns: 1})
		first := netConn(t, listener.Addr())
		write(t, first, framed("first"))
		l.untilReceived(1)
		second := netConn(t, listener.Addr())
		l.until("the second to be refused", func() bool { return l.Stats().Streams.Refused == 1 })
		if _, err := second.Read(make([]byte, 1)); err == nil {
			t.Error("the second connection is open")
		}
		_ = first.Close()
		l.untilFailed(1)
		write(t, netConn(t, listener.Addr()), framed("third"))
		l.untilReceived(2)
		if l.received[1].datagram != "third" || l.Stats().Streams.Accepted != 2 {
			t.Errorf("received %q, counted %+v", l.received[1].datagram, l.Stats().Streams)
		}
	})
}

func TestStreamOptionsAndAddresses(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		for _, c := range []struct {
			addr netip.AddrPort
			o    netio.StreamOptions
			want error
		}{
			{netip.AddrPort{}, netio.StreamOptions{}, netio.ErrAddress},
			{loopback, netio.StreamOptions{MaxFrame: netio.MaxDatagram + 1}, netio.ErrFrames},
			{loopback, netio.StreamOptions{MaxFrame: -1}, netio.ErrFrames},
		} {
			if _, err := l.ListenStream(c.addr, c.o); !errors.Is(err, c.want) {
				t.Errorf("ListenStream: %v, want %v", err, c.want)
			}
			if _, err := l.DialStream(c.addr, c.o); !errors.Is(err, c.want) {
				t.Errorf("DialStream: %v, want %v", err, c.want)
			}
		}
		listener := l.listenStream(netio.StreamOptions{})
		if _, err := l.ListenStream(listener.Addr(), netio.StreamOptions{}); err == nil {
			t.Error("ListenStream on an address in use: no error")
		}
		_, err := l.Listen(listener.Addr(), netio.SocketOptions{})
		for range 5 { // another program may use the port for UDP
			if err == nil {
				return
			}
			_, err = l.Listen(l.listenStream(netio.StreamOptions{}).Addr(), netio.SocketOptions{})
		}
		t.Errorf("UDP beside TCP on one port: %v", err)
	})
}

// TestFloodedStreamDoesNotStarveAnother checks that a flooding client does not keep others from being served.
func TestFloodedStreamDoesNotStarveAnother(t *testing.T) {
	const enough = 400_000 // frames; a turn takes one read of each
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		listener := l.listenStream(netio.StreamOptions{})
		flooder, quiet := netConn(t, listener.Addr()), netConn(t, listener.Addr())
		var flood []byte
		for range 1000 {
			flood = append(flood, framed("f")...)
		}
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = flooder.Write(flood)
				}
			}
		}()
		served, frames := false, 0
		l.onDatagram = func(_ netio.Socket, _ netip.AddrPort, d []byte) {
			l.received = l.received[:0]
			frames++
			if frames == 1000 {
				write(t, quiet, framed("quiet"))
			}
			served = served || string(d) == "quiet"
		}
		l.until("the quiet stream", func() bool { return served || frames > enough })
		if !served {
			t.Errorf("%d frames of a flooding client came before one of another", frames)
		}
	})
}

// TestHelloLimits checks that one address has a bounded number of connections without a session. A connection whose
// first frame was kept, or that has ended, makes room. A connection of another address is accepted.
func TestHelloLimits(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		listener := l.listenStream(netio.StreamOptions{Hellos: netio.HelloLimits{Address: 2, Network: 3, Overall: 4}})
		dial := func(from string) *net.TCPConn {
			t.Helper()
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			conn, err := d.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Skipf("dial from %s: %v", from, err) // not every system has all of 127.0.0.0/8
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn.(*net.TCPConn)
		}
		accepted, refused := uint64(0), uint64(0)
		expect := func(from string, ok bool) *net.TCPConn {
			t.Helper()
			conn := dial(from)
			if ok {
				accepted++
			} else {
				refused++
			}
			l.until(fmt.Sprintf("%d accepted, %d refused", accepted, refused), func() bool {
				s := l.Stats().Streams
				return s.Accepted == accepted && s.Refused == refused
			})
			return conn
		}
		first, second := expect("127.0.0.2", true), expect("127.0.0.2", true)
		expect("127.0.0.2", false)
		expect("127.0.0.3", true)
		expect("127.0.0.4", false) // the network is full
		expect("127.0.1.2", true)
		expect("127.0.2.2", false) // all places are taken
		write(t, first, framed("first"))
		l.untilReceived(1)
		expect("127.0.0.2", true)
		expect("127.0.0.2", false)
		_ = second.Close()
		l.untilFailed(1)
		expect("127.0.0.2", true)
	})
}
