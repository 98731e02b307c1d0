package netio_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
)

func TestDeadline(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		for _, wait := range []time.Duration{time.Millisecond, 20 * time.Millisecond, time.Millisecond} {
			start := time.Now()
			deadline := start.Add(wait)
			for time.Now().Before(deadline) {
				l.turn(deadline)
			}
			if late := time.Since(deadline); late >= patience {
				t.Errorf("a wait of %s came %s late", wait, late)
			}
		}
	})
}

// TestPastDeadline checks that a past deadline only polls, also after another deadline that was not reached.
func TestPastDeadline(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		start := time.Now()
		l.turn(start.Add(-time.Hour))
		l.turn(start)
		if took := time.Since(start); took >= patience {
			t.Errorf("Wait with a past deadline took %s", took)
		}
	})
}

// TestWaitWithoutDeadline checks that the deadline of one wait does not end a later one without a deadline.
func TestWaitWithoutDeadline(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := newLoop(t, o)
		socket := client.dial(server.Addr())
		l.turn(time.Now().Add(time.Millisecond))

		over := make(chan error)
		go func() {
			var err error
			for n := 0; len(l.received) == 0 && n < 100 && err == nil; n++ {
				err = l.Wait(time.Time{})
				l.Receive(l)
			}
			over <- err
		}()
		select {
		case err := <-over:
			t.Errorf("Wait without a deadline returned again and again, or %v", err)
		case <-time.After(5 * time.Millisecond):
			client.send(socket, netip.AddrPort{}, "wake up")
			client.Flush()
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestWaitTwice checks that the next Wait finds the input that was not received.
func TestWaitTwice(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		for range 2 {
			sendByNet(t, server.Addr(), "x")
		}
		for range 3 {
			start := time.Now()
			if err := l.Wait(start.Add(patience)); err != nil {
				t.Fatal(err)
			}
			if time.Since(start) >= patience {
				t.Fatal("Wait blocked though there is input")
			}
		}
		l.untilReceived(2)
	})
}

func TestWakeFromAnotherGoroutine(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		const rounds = 500
		mailbox, answers := make(chan int, 1), make(chan int)
		go func() { // one wake at a time: a lost Wake hangs
			for i := range rounds {
				mailbox <- i
				l.Wake()
				<-answers
			}
		}()
		for got := 0; got < rounds; {
			start := time.Now()
			if err := l.Wait(start.Add(patience)); err != nil {
				t.Fatal(err)
			}
			if time.Since(start) >= patience {
				t.Fatalf("Wake %d was lost", got)
			}
			select {
			case <-mailbox:
				got++
				answers <- got
			default:
			}
		}
	})
}

// TestWakeKeepsTheDeadline checks that a Wake does not affect the deadline of the next wait, even if it is the same.
func TestWakeKeepsTheDeadline(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		const rounds = 100
		mailbox := make(chan int)
		go func() {
			for i := range rounds { // some find the loop waiting
				l.Wake()
				mailbox <- i
			}
		}()
		deadline := time.Now().Add(50 * time.Millisecond)
		for range rounds {
			l.turn(deadline)
			<-mailbox
		}
		turns := 0
		for ; time.Now().Before(deadline); turns++ {
			l.turn(deadline)
		}
		if turns > rounds {
			t.Errorf("%d waits ended before their deadline", turns)
		}
	})
}

// TestWakeIsRememberedOnce checks that a Wake without a wait ends the next Wait, and only that one.
func TestWakeIsRememberedOnce(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		l.Wake()
		l.Wake()
		start := time.Now()
		l.turn(start.Add(patience))
		if took := time.Since(start); took >= patience {
			t.Error("the Wait after a Wake blocked")
		}
		deadline := time.Now().Add(20 * time.Millisecond)
		early := 0
		for time.Now().Before(deadline) {
			l.turn(deadline)
			early++
		}
		if early > 2 {
			t.Errorf("%d waits ended early after one Wake", early)
		}
	})
}

func TestAfterClose(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		p, err := netio.New(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Listen(loopback, netio.SocketOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		out := p.Stats().Out
		p.Wake()
		s.Close()
		p.Send(s, s.Addr(), []byte("x"))
		p.Flush()
		if got := p.Stats().Out; got != out {
			t.Errorf("sent %+v after Close, want %+v as before", got, out)
		}
		if err := p.Wait(time.Time{}); !errors.Is(err, netio.ErrClosed) {
			t.Errorf("Wait = %v, want ErrClosed", err)
		}
		if _, err := p.Listen(loopback, netio.SocketOptions{}); !errors.Is(err, netio.ErrClosed) {
			t.Errorf("Listen = %v, want ErrClosed", err)
		}
		if _, err := p.Dial(loopback, netio.SocketOptions{}); !errors.Is(err, netio.ErrClosed) {
			t.Errorf("Dial = %v, want ErrClosed", err)
		}
	})
}

// TestInputFromAnotherLoop checks that input ends a wait, also after a batch delay.
func TestInputFromAnotherLoop(t *testing.T) {
	const rounds = 1000
	eachBackend(t, func(t *testing.T, o netio.Options) {
		for _, o.MaxBatchDelay = range []time.Duration{0, 100 * time.Millisecond} {
			l, other := newLoop(t, o), newLoop(t, netio.Options{})
			server := other.listen(loopback)
			echoed := make(chan error)
			go func() {
				other.onDatagram = func(s netio.Socket, from netip.AddrPort, datagram []byte) {
					other.Send(s, from, datagram)
				}
				var err error
				for len(other.received) < rounds && err == nil {
					err = other.Wait(time.Now().Add(patience))
					other.Receive(other)
					other.Flush()
				}
				echoed <- err
			}()
			client := l.dial(server.Addr())
			for i := range rounds {
				l.send(client, netip.AddrPort{}, "x")
				l.Flush()
				l.untilReceived(i + 1)
			}
			if err := <-echoed; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestBatchDelay checks that turns wait for more datagrams under a steady load, if they may.
func TestBatchDelay(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		o.MaxBatchDelay = 100 * time.Millisecond
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := l.dial(server.Addr())
		l.until("a delay", func() bool {
			l.send(client, netip.AddrPort{}, "x")
			l.Flush()
			return l.Stats().Delays > 0
		})
	})
}
