package netio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Indices into the answer of SO_MEMINFO (SK_MEMINFO_* in linux/sock_diag.h).
const (
	memoryDrops  = 8
	memoryFields = 9
)

// KernelDrops implements KernelDropCounter. Asking on demand costs less than a control message with each datagram
// (SO_RXQ_OVFL). Kernels before 4.12 do not answer.
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

// countDrops adds the kernel's drops since the last call.
func (s *epollSocket) countDrops() {
	drops := s.KernelDrops()
	*s.dropsOf(&s.poller.stats) += uint64(drops - s.drops)
	s.drops = drops
}

// dropsOf returns the total that the socket's drops belong to.
func (s *epollSocket) dropsOf(all *Stats) *uint64 {
	_, shared := s.demux.(*sharedSocket)
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

// dialedLooks bounds the number of one-session sockets that one Stats asks, because there may be thousands.
const dialedLooks = 128

// Stats asks all listening and shared sockets for their drops. It asks a socket of one session only if datagrams have
// piled up there. Close asks such a socket too.
func (p *epollPoller) Stats() Stats {
	looks := 0
	for _, w := range p.sockets {
		s, ok := w.(*epollSocket)
		switch {
		case !ok:
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
