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

// waiters is the number of the process's open ones.
var waiters atomic.Int32

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
