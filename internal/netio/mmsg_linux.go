package netio

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the kernel's struct mmsghdr: one datagram of a batch.
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes received or sent
}

// recvmmsg and sendmmsg move a batch through a non-blocking socket and return the number of datagrams. They are raw
// system calls, which Go's scheduler does not notice. That is cheaper, and a batch is too short to need it.

func recvmmsg(fd int, batch []mmsghdr) (int, syscall.Errno) {
	return mmsg(unix.SYS_RECVMMSG, fd, batch)
}

func sendmmsg(fd int, batch []mmsghdr) (int, syscall.Errno) {
	if h := &batch[0]; len(batch) == 1 && h.Iovlen == 1 && h.Controllen == 0 {
		return sendto(fd, h)
	}
	return mmsg(unix.SYS_SENDMMSG, fd, batch)
}

// sendto sends one datagram of one piece. The kernel then copies no headers and vectors. That saves a tenth of the
// time where each session has its own socket.
func sendto(fd int, h *mmsghdr) (int, syscall.Errno) {
	to := h.Name
	if h.Namelen == 0 { // the socket is connected, and would refuse an empty address
		to = nil
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(h.Iov.Base)), uintptr(h.Iov.Len),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(to)), uintptr(h.Namelen))
	if errno != 0 {
		return 0, errno
	}
	h.n = uint32(n)
	return 1, 0
}

func mmsg(call uintptr, fd int, batch []mmsghdr) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&batch[0])), uintptr(len(batch)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// epollPoll returns the number of ready events of the epoll descriptor, without waiting. It is a raw system call, as
// above.
func epollPoll(epfd int, events []unix.EpollEvent) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// epollWait is epollPoll that waits up to rest for an event.
func epollWait(epfd int, events []unix.EpollEvent, rest time.Duration) (int, syscall.Errno) {
	ts := unix.NsecToTimespec(rest.Nanoseconds())
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	return int(n), errno
}

// recv and send move bytes through a non-blocking TCP socket. They are raw system calls, as above.

func recv(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func send(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// nanosleep sleeps, or returns early on a signal.
func nanosleep(ts *unix.Timespec) {
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(ts)), 0, 0)
}
