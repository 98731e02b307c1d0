package netio

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBusyLoopLeavesOtherSockets checks that a loop that is busy after a silence does not keep other goroutines of the
// process from their sockets. In the silence, the scheduler's monitor falls asleep.
func TestBusyLoopLeavesOtherSockets(t *testing.T) {
	p := newEpollPoller(t)
	s := listen(t, p, SocketOptions{})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := os.NewFile(uintptr(pair[0]), "reader"), pair[1]
	var arrived atomic.Bool
	done := make(chan error)
	go func() {
		_, err := reader.Read(make([]byte, 1))
		arrived.Store(true)
		done <- err
	}()
	if err := p.Wait(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	e := newEchoing(p)
	p.Send(s, s.Addr(), []byte("the socket sends this to itself, for ever"))
	for turn, began := 0, time.Now(); !arrived.Load(); turn++ {
		p.Flush()
		if turn == 4*turnsAlone {
			if _, errno := send(writer, []byte("x")); errno != 0 {
				t.Fatal(errno)
			}
		}
		if err := p.Wait(began.Add(tooLong)); err != nil {
			t.Fatal(err)
		}
		if p.Receive(e); time.Since(began) > tooLong {
			t.Fatal("another socket's input does not arrive beside a busy loop")
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if err := unix.Close(writer); err != nil {
		t.Error(err)
	}
}
