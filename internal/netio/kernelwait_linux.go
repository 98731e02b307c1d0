package netio

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Under a steady load of few datagrams a loop waits in the kernel. Go's scheduler does not know of that wait: a wait by
// its poller takes three more system calls, and much of its own code. But where the scheduler's monitor is awake, it
// does not rest meanwhile. So a loop waits in the kernel only after steadyWaits with input, each at most steadyGap
// after the one before, and for steadyGap at most. And it does so only if Go has another processor, and no other loop
// that needs it, nor other goroutines that wake the loop: they would wait for the processor that the loop keeps.
//
// If the scheduler must stop the world, a signal to the thread ends the wait early.
const (
	steadyGap   = 10 * time.Millisecond
	steadyWaits = 16
)

// steadiness decides whether a loop waits in the kernel.
type steadiness struct {
	received uint64    // datagrams before the last wait
	last     time.Time // beginning of the last wait after input
	waits    int       // waits after input in a row, each at most steadyGap after the one before
	off      bool      // Go has one processor, or the kernel is older than Linux 5.11 or forbids the system call
}

// rest returns how long a wait that begins now may last in the kernel. received is the number of datagrams so far.
func (s *steadiness) rest(now time.Time, received uint64) time.Duration {
	if received != s.received {
		if s.waits++; now.Sub(s.last) > steadyGap {
			s.waits = 0
		}
		s.received, s.last = received, now
	}
	if s.off || s.waits < steadyWaits {
		return 0
	}
	return steadyGap - now.Sub(s.last)
}

// waitInKernel waits in the kernel until there is something to do, or until at; zero is never. It reports whether the
// wait is over. Otherwise the loop must park.
func (p *epollPoller) waitInKernel(at time.Time) (over bool, err error) {
	now := time.Now()
	rest := p.steady.rest(now, p.stats.In.Datagrams)
	ends := !at.IsZero() && at.Sub(now) <= rest
	if ends {
		rest = at.Sub(now)
	}
	if rest <= 0 || waiters.Load() > 1 {
		return false, nil
	}
	if err := p.waiter.shutGate(); err != nil {
		return false, err
	}
	p.clock.beforePoll()
	n, errno := p.waiter.wait(p.events[:], rest)
	switch errno {
	case 0:
		return p.take(n) || n == 0 && ends, nil
	case unix.EINTR: // by a wake, or a signal
		return true, nil
	default:
		p.steady.off = true
		return false, nil
	}
}

// All other sockets of the process are in Go's own poller. A thread that finds a loop ready leaves that poller, and
// relies on the scheduler's monitor to look there. But the monitor sleeps while all goroutines wait, until one of them
// makes a system call that the scheduler notices, or until the next timer, which may be a second away. Loops make raw
// calls only. So a loop that goes on without a park must see to it that a thread looks.

// turnsAlone is the number of turns after a park before a loop does so.
const turnsAlone = 16

// shareGoPoller sees to it that a thread looks into Go's poller.
func shareGoPoller() {
	if runtime.GOMAXPROCS(0) > int(waiters.Load()) {
		// The goroutine ends at once, and its thread then waits in the poller. The monitor may sleep on: awake, it would
		// look a hundred times a second.
		go func() {}()
		return
	}
	// Loops may have all of Go's processors. The monitor, once awake, takes one from a busy loop every 10 ms.
	_, _, _ = unix.Syscall(unix.SYS_GETPID, 0, 0, 0)
}
