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

// KernelDrops implements KernelDropCounter. To ask when somebody wants to know costs less than to be told with each datagram
// (SO_RXQ_OVFL). Kernels before 4.12 tell nothing.
func (s *epollSocket) KernelDrops() uint32 {
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
	drops := s.KernelDrops()
	*s.dropsOf(&s.poller.stats) += uint64(drops - s.drops)
	s.drops = drops
}

// dropsOf is the total that the socket's drops belong to.
func (s *epollSocket) dropsOf(all *Stats) *uint64 {
	_, shared := s.split.(*hub)
	switch {
	case s.dialed() || shared:
		return &all.DialedDrops
	case s.filtered:
		return &all.FilterDrops
	}
	return &all.KernelDrops
}

// SetFiltered implements KernelDropCounter.
func (s *epollSocket) SetFiltered(on bool) {
	if on != s.filtered {
		s.countDrops()
		s.filtered = on
	}
}

// dialedLooks bounds the sockets of one session each that one Stats asks: there may be thousands.
const dialedLooks = 128

// Stats asks for the drops of sockets that listen or are shared. A socket of one session is asked if datagrams have
// piled up there, and when it is closed.
func (p *epollPoller) Stats() Stats {
	looks := 0
	for _, w := range p.sockets {
		s, ok := w.(*epollSocket)
		switch {
		case !ok || s.muted:
		case !s.dialed():
			s.countDrops()
		case s.queued && looks < dialedLooks:
			looks++
			s.countDrops()
			s.queued = false
		}
	}
	return p.stats
}
