package netio

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Under a steady load of few datagrams a loop waits in the kernel. Go's scheduler does not know of that wait: a wait by
// its poller takes three more system calls, and much of its own code. But where the scheduler's monitor is awake, it
// does not rest meanwhile. So a loop waits in the kernel only after steadyWaits with input, each at most steadyGap
// after the one before, and for steadyGap at most. And it does so only if Go has another processor, and no other loop
// that needs it.
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

// waiters is the number of the process's open ones.
var waiters atomic.Int32

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

// wait waits in the kernel for events, at most for rest. It returns EINTR if a wake came before it.
//
// wake sets woken and then looks at inKernel; wait sets inKernel and then looks at woken. The later one sees the other,
// so no wake is lost.
func (w *waiter) wait(events []unix.EpollEvent, rest time.Duration) (n int, errno syscall.Errno) {
	w.inKernel.Store(true)
	defer w.inKernel.Store(false)
	if w.woken.Load() {
		return 0, unix.EINTR
	}
	return epollWait(w.epfd, events, rest)
}

// alarmMark is the alarm's descriptor in events.
const alarmMark = -1

// newAlarm adds an eventfd to the epoll set, which ends a wait in the kernel. Its report is edge-triggered, so it is
// never read. It is in blocking mode, which keeps it from Go's own poller.
func newAlarm(epfd int) (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	file := os.NewFile(uintptr(fd), "eventfd")
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: alarmMark}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return nil, errors.Join(os.NewSyscallError("epoll_ctl", err), file.Close())
	}
	return file, nil
}

// ringing adds 1 to the eventfd. It would overflow after 2^64.
var ringing = binary.NativeEndian.AppendUint64(nil, 1)

// ring ends the present wait in the kernel. Any goroutine may call it.
func (w *waiter) ring() {
	_, _ = w.alarm.Write(ringing) // it fails only if the file is closed, and then nothing waits
}
