package netio

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBusyLoopsLeaveOtherSockets checks that loops that are busy after a silence do not keep other goroutines of the
// process from their sockets. In the silence, the scheduler's monitor falls asleep.
func TestBusyLoopsLeaveOtherSockets(t *testing.T) {
	for _, c := range []struct{ processors, loops int }{{1, 1}, {2, 1}, {2, 2}, {3, 2}} {
		t.Run(fmt.Sprintf("%d loops on %d processors", c.loops, c.processors), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.processors))
			readBeside(t, c.loops)
		})
	}
}

// readBeside reads a socket that the first of some busy loops writes to.
func readBeside(t *testing.T, loops int) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := os.NewFile(uintptr(pair[0]), "reader"), pair[1]
	var arrived atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := reader.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		arrived.Store(true)
	})
	for i := range loops {
		p := newEpollPoller(t)
		s := listen(t, p, SocketOptions{})
		all.Go(func() {
			// All goroutines wait in this silence.
			if err := p.Wait(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Error(err)
			}
			p.Send(s, s.Addr(), []byte("the socket sends this to itself, for ever"))
			keepBusy(t, p, &arrived, func() {
				if i == 0 {
					_, _ = send(writer, []byte("x")) // or the reader says that nothing has come
				}
			})
		})
	}
	all.Wait()
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if err := unix.Close(writer); err != nil {
		t.Error(err)
	}
}

// keepBusy turns a loop until something has arrived, and calls then after some turns.
func keepBusy(t *testing.T, p *epollPoller, arrived *atomic.Bool, then func()) {
	e := newEchoing(p)
	for turn, began := 0, time.Now(); !arrived.Load(); turn++ {
		if p.Flush(); turn == 4*turnsAlone {
			then()
		}
		if err := p.Wait(began.Add(tooLong)); err != nil {
			t.Error(err)
			return
		}
		if p.Receive(e); time.Since(began) > tooLong {
			t.Error("another socket's input does not arrive beside busy loops")
			return
		}
	}
}
