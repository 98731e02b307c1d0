package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lock keeps other programs from a listener of this process, which a library owns. On loopback, other users of the
// machine could take its connections. It is safe for concurrent use.
type Lock struct {
	at   netip.AddrPort
	fd   int // a copy of the listener's descriptor
	dial sync.Mutex
}

// NewLock locks the TCP listener at an IPv4 address of this machine. Close frees a descriptor, and leaves it locked.
func NewLock(at netip.AddrPort) (*Lock, error) {
	if !at.Addr().Is4() {
		return nil, fmt.Errorf("lock %s: want IPv4", at)
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	for _, entry := range all {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // the number may change hands
		if err != nil {
			continue
		}
		if listens(own, at) {
			l := &Lock{at: at, fd: own}
			if err := l.admit(0); err != nil {
				l.Close()
				return nil, err
			}
			return l, nil
		}
		_ = unix.Close(own)
	}
	return nil, fmt.Errorf("lock %s: this process does not listen there", at)
}

// listens reports whether a descriptor is a TCP listener at an address.
func listens(fd int, at netip.AddrPort) bool {
	if is, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || is == 0 {
		return false
	}
	name, err := unix.Getsockname(fd)
	own, ok := name.(*unix.SockaddrInet4)
	return err == nil && ok && netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port)) == at
}

// netOffset is where classic BPF has the IP header (SKF_NET_OFF).
const netOffset = -0x100000

// admit lets only segments from 127.0.0.1 and a port in. An accepted connection inherits this from the listener.
func (l *Lock) admit(port uint16) error {
	source := int32(netOffset + 12)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: uint32(port)},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(source)},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: 0x7f000001},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff_ffff},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.SetsockoptSockFprog(l.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	return os.NewSyscallError("setsockopt", err)
}

// Dial connects to the listener.
func (l *Lock) Dial(ctx context.Context) (net.Conn, error) {
	l.dial.Lock()
	defer l.dial.Unlock()
	var fault error
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) { fault = l.expect(int(fd)) })
		return errors.Join(err, fault)
	}}
	return d.DialContext(ctx, "tcp4", l.at.String())
}

// expect binds a socket that will connect, and lets it in.
func (l *Lock) expect(fd int) error {
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	name, err := unix.Getsockname(fd)
	if own, ok := name.(*unix.SockaddrInet4); ok && err == nil {
		return l.admit(uint16(own.Port))
	}
	return os.NewSyscallError("getsockname", err)
}

// Close frees the lock's descriptor.
func (l *Lock) Close() { _ = unix.Close(l.fd) }
