package netio

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// deadlineTimer is a timerfd in the epoll set, for the deadline of a wait. Go's own timers would be up to a millisecond
// late while the process is idle. The scheduler's monitor would also wake for each of them, and then check the threads
// every 20 µs until all are idle again.
type deadlineTimer struct {
	fd int
	at time.Time // when it fires; zero: not set, or it has fired
}

func newDeadlineTimer() (*deadlineTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &deadlineTimer{fd: fd}, nil
}

// set sets the time when the timer fires; zero means never. It reports whether the time has passed. The timer is as
// before then.
func (t *deadlineTimer) set(at time.Time) (passed bool, err error) {
	var spec unix.ItimerSpec // zero stops the timer
	if !at.IsZero() {
		rest := time.Until(at)
		if rest <= 0 {
			return true, nil
		}
		spec.Value = unix.NsecToTimespec(rest.Nanoseconds())
	}
	if at.Equal(t.at) {
		return false, nil
	}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		return false, os.NewSyscallError("timerfd_settime", err)
	}
	t.at = at
	return false, nil
}

// fired notes that the kernel has reported the timer. The report is edge-triggered, so the descriptor is never read.
func (t *deadlineTimer) fired() { t.at = time.Time{} }

// handle implements watched. poll takes the events of a timer, so none is left for Receive.
func (t *deadlineTimer) handle(uint32, Handler) {}

func (t *deadlineTimer) shut() { _ = unix.Close(t.fd) }

// watchDeadline adds the timer to the epoll set of a new Poller.
func (p *epollPoller) watchDeadline() error {
	t, err := newDeadlineTimer()
	if err != nil {
		return err
	}
	if err := p.watch(t, t.fd, unix.EPOLLIN|unix.EPOLLET); err != nil {
		return errors.Join(err, unix.Close(t.fd))
	}
	p.deadline = t
	return nil
}
