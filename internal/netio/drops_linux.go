package netio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Places in what SO_MEMINFO tells (SK_MEMINFO_* in linux/sock_diag.h).
const (
	memoryDrops  = 8
	memoryFields = 9
)

// Dropped implements Dropper. To ask when somebody wants to know costs less than to be told with each datagram
// (SO_RXQ_OVFL). Kernels before 4.12 tell nothing.
func (s *epollSocket) Dropped() uint32 {
	var fields [memoryFields]uint32
	size := uint32(unsafe.Sizeof(fields))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&fields)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return s.drops
	}
	return fields[memoryDrops]
}

// countDrops counts what the kernel has dropped since the last time.
func (s *epollSocket) countDrops() {
	drops := s.Dropped()
	s.poller.stats.KernelDrops += uint64(drops - s.drops)
	s.drops = drops
}

// Stats asks for the drops of those that listen. Others have them counted when they are closed: there may be thousands.
func (p *epollPoller) Stats() Stats {
	for _, w := range p.sockets {
		if s, ok := w.(*epollSocket); ok && !s.dialed() {
			s.countDrops()
		}
	}
	return p.stats
}
