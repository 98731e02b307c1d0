package netio

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errorBatch is the number of error reports that a sharedSocket reads at a time.
const errorBatch = 64

// readErrorQueue reports network errors to the virtual sockets that caused them, and returns the number of reports.
func (h *sharedSocket) readErrorQueue() (reports int) {
	p := h.poller
	var control [2 * controlRoom]byte
	for ; reports < errorBatch; reports++ {
		_, n, _, to, err := unix.Recvmsg(h.fd, nil, control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return reports
		}
		errno, at := readError(control[:n])
		f := classifyErrno(errno)
		p.stats.countReceive(f)
		if !h.ownAddresses {
			at = netip.Addr{}
		}
		if l := h.members[keyOf(at, ofSockaddr(to))]; l != nil {
			p.failures.add(l, &l.endpoint, f)
		}
	}
	return reports
}

// readError reads a report: the error, and the source address of the datagram that caused it.
func readError(b []byte) (errno syscall.Errno, at netip.Addr) {
	var n metadata
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		end := int(h.Len)
		if end < unix.SizeofCmsghdr || end > len(b) {
			break
		}
		data := b[unix.SizeofCmsghdr:end]
		isError := h.Level == unix.SOL_IP && h.Type == unix.IP_RECVERR ||
			h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_RECVERR
		switch {
		case isError && len(data) >= 4:
			errno = syscall.Errno(binary.NativeEndian.Uint32(data))
		case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO && len(data) >= 12:
			n.at = netip.AddrFrom4([4]byte(data[8:12])) // the destination of the report
		default:
			n.readOne(h.Level, h.Type, data)
		}
		b = b[min(unix.CmsgSpace(end-unix.SizeofCmsghdr), len(b)):]
	}
	return errno, n.at
}
