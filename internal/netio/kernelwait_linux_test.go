package netio

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"
)

// tooLong bounds the waits of these tests. Only a failing test waits that long.
const tooLong = 30 * time.Second

// TestSteadiness checks that only a load with short gaps lets a loop wait in the kernel, and for how long.
func TestSteadiness(t *testing.T) {
	var s steadiness
	now, received := time.Unix(1000, 0), uint64(0)
	gap := func(d time.Duration) time.Duration {
		now = now.Add(d)
		received++
		return s.rest(now, received)
	}
	for i := range steadyWaits {
		if rest := gap(steadyGap); rest != 0 {
			t.Errorf("wait %d after a silence may last %s", i, rest)
		}
	}
	if rest := gap(steadyGap); rest != steadyGap {
		t.Errorf("a steady load may wait for %s", rest)
	}
	now = now.Add(steadyGap / 4)
	if rest := s.rest(now, received); rest != steadyGap*3/4 {
		t.Errorf("after a wait without input it may wait for %s", rest)
	}
	if gap(steadyGap + 1); s.rest(now, received) != 0 {
		t.Error("a load with a silence is steady")
	}
}

// TestOnlyLoneLoopsWaitInKernel checks that a loop parks while the process has another one.
func TestOnlyLoneLoopsWaitInKernel(t *testing.T) {
	p, steady := steadyPoller(t)
	other := newEpollPoller(t)
	for range 2 {
		steady()
		over, err := p.waitInKernel(time.Now().Add(steadyGap / 8))
		if over == !other.closed || err != nil {
			t.Errorf("the other loop has ended: %v; the wait is over: %v, %v", other.closed, over, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}

// steadyPoller returns a poller, and a function that lets its next wait be one in the kernel.
func steadyPoller(t *testing.T) (*epollPoller, func()) {
	p := newEpollPoller(t)
	return p, func() {
		p.steady = steadiness{waits: steadyWaits, last: time.Now(), received: p.stats.In.Datagrams}
	}
}

// TestWakeEndsWaitInKernel checks that a wake during or before a wait in the kernel ends it.
func TestWakeEndsWaitInKernel(t *testing.T) {
	p, steady := steadyPoller(t)
	const rounds = 300
	lost := 0
	for i := range rounds {
		go func() {
			for n := 0; n < i && !p.waiter.inKernel.Load(); n++ { // some wakes come before the wait
				runtime.Gosched()
			}
			p.Wake()
		}()
		for over := false; !p.waiter.woken.Load(); { // a signal may end a wait
			steady()
			var err error
			if over, err = p.waitInKernel(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if !over && p.waiter.woken.Load() {
				lost++ // or the wake came at the end of the wait
			}
		}
		p.waiter.forget()
	}
	if lost > rounds/10 {
		t.Errorf("%d of %d wakes were lost", lost, rounds)
	}
}

// TestWokenLoopsPark checks that a loop parks which other goroutines wake: they need its processor.
func TestWokenLoopsPark(t *testing.T) {
	p, steady := steadyPoller(t)
	steady()
	p.Wake()
	if err := p.Wait(time.Now().Add(tooLong)); err != nil || p.steady.waits != 0 {
		t.Errorf("%v; after a wake there were %d steady waits", err, p.steady.waits)
	}
}

// TestDeadlineEndsWaitInKernel checks that a wait in the kernel keeps its deadline.
func TestDeadlineEndsWaitInKernel(t *testing.T) {
	p, steady := steadyPoller(t)
	steady()
	at := time.Now().Add(steadyGap / 8)
	for over := false; !over || time.Now().Before(at); { // a signal may end a wait
		var err error
		if over, err = p.waitInKernel(at); err != nil || !over && time.Now().Before(at) {
			t.Fatalf("a wait before its deadline = %v, %v", over, err)
		}
	}
}

// TestSteadyLoad checks that a steady load is received by waits in the kernel, that a silence parks the loop, and that
// the next datagram then ends the wait. It is the same where the kernel has no such wait, but the loop always parks.
func TestSteadyLoad(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprint("off ", off), func(t *testing.T) { receiveSteadyLoad(t, off) })
	}
}

func receiveSteadyLoad(t *testing.T, off bool) {
	p := newEpollPoller(t)
	p.steady.off = off
	client, err := net.Dial("udp", listen(t, p, SocketOptions{}).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sendAfter := func(d time.Duration) <-chan struct{} {
		sent := make(chan struct{})
		go func() {
			<-time.After(d)
			_, _ = client.Write([]byte("x"))
			close(sent)
		}()
		return sent
	}
	e := newEchoing(p)
	turn := func() {
		if err := p.Wait(time.Now().Add(tooLong)); err != nil {
			t.Fatal(err)
		}
		p.Receive(e)
	}
	for start := time.Now(); !p.waiter.shut; { // each datagram finds the loop before or in its wait
		before := p.stats.In.Datagrams
		sent := sendAfter(time.Millisecond)
		for p.stats.In.Datagrams == before {
			turn()
		}
		if <-sent; off && before > 2*steadyWaits {
			break
		}
		if time.Since(start) > tooLong {
			t.Fatal("no wait in the kernel under a steady load")
		}
	}
	sent := sendAfter(4 * steadyGap)
	for before := p.stats.In.Datagrams; p.stats.In.Datagrams == before; {
		turn()
	}
	<-sent
	if p.waiter.shut {
		t.Error("the loop has not parked in a silence")
	}
}

// TestWaitInKernelYields checks that a wait in the kernel delays neither a stop of the world nor other goroutines, even
// if there is only one processor for Go. No loop waits so there, but the number may change later.
func TestWaitInKernelYields(t *testing.T) {
	for _, processors := range []int{1, 2} {
		t.Run(fmt.Sprint(processors), func(t *testing.T) { waitAndYield(t, processors) })
	}
}

func waitAndYield(t *testing.T, processors int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	p, steady := steadyPoller(t)
	stops := make(chan time.Duration)
	go func() {
		shortest := tooLong
		var stats runtime.MemStats
		for range 10 {
			<-time.After(time.Millisecond)
			start := time.Now()
			runtime.ReadMemStats(&stats) // stops the world
			shortest = min(shortest, time.Since(start))
		}
		stops <- shortest
	}()
	for start := time.Now(); ; {
		steady()
		if _, err := p.waitInKernel(time.Time{}); err != nil {
			t.Fatal(err)
		}
		select {
		case shortest := <-stops:
			if shortest > steadyGap/4 {
				t.Errorf("a stop of the world takes %s with %d processors", shortest, processors)
			}
		default:
			if time.Since(start) < tooLong {
				continue
			}
			t.Errorf("goroutines do not run beside a waiting loop with %d processors", processors)
		}
		break
	}
}
