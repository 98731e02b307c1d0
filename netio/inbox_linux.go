package netio

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of a read. A listening socket carries many clients and may be read several times a turn; one that was dialed
// carries a single upstream's answers to one client.
const (
	listenBatch  = 64
	listenRounds = 4
	dialBatch    = 8
	dialRounds   = 1
)

// controlLen is the room for the one control message we ask for, SO_RXQ_OVFL's uint32.
var controlLen = unix.CmsgSpace(4)

// inbox is what one recvmmsg reads into, prepared once.
type inbox struct {
	batch   []mmsghdr
	iovecs  []unix.Iovec
	names   []sockaddr // of the senders; none for dialed sockets, which have but one
	control []byte
	used    int // headers that the last read changed
}

// newInbox makes an inbox for n datagrams in the slab, which has MaxDatagram bytes for each.
func newInbox(n int, slab []byte, named bool) *inbox {
	in := &inbox{
		batch:   make([]mmsghdr, n),
		iovecs:  make([]unix.Iovec, n),
		control: make([]byte, n*controlLen),
		used:    n,
	}
	if named {
		in.names = make([]sockaddr, n)
	}
	for i := range in.batch {
		h := &in.batch[i]
		in.iovecs[i].Base = &slab[i*MaxDatagram]
		in.iovecs[i].SetLen(MaxDatagram)
		h.Iov = &in.iovecs[i]
		h.SetIovlen(1)
		h.Control = &in.control[i*controlLen]
		if named {
			h.Name = (*byte)(unsafe.Pointer(&in.names[i]))
		}
	}
	return in
}

// read reads up to a batch.
func (in *inbox) read(fd int) (int, syscall.Errno) {
	in.reset()
	n, errno := recvmmsg(fd, in.batch)
	if errno != 0 {
		return 0, errno
	}
	in.used = n
	return n, 0
}

// reset undoes what the kernel wrote into the headers: it takes these lengths as room, and gives them as length.
func (in *inbox) reset() {
	for i := range in.batch[:in.used] {
		h := &in.batch[i]
		h.SetControllen(controlLen)
		if in.names != nil {
			h.Namelen = unix.SizeofSockaddrInet6
		}
	}
	in.used = 0
}

// datagram is the i-th datagram read.
func (in *inbox) datagram(i int) []byte {
	return unsafe.Slice(in.iovecs[i].Base, in.batch[i].n)
}

// truncated reports whether the i-th datagram was longer than its room.
func (in *inbox) truncated(i int) bool { return in.batch[i].Flags&unix.MSG_TRUNC != 0 }

// drops is the kernel's count of the datagrams it dropped on this socket before the i-th; false if it said nothing, as
// it does when it has dropped none. The count wraps.
func (in *inbox) drops(i int) (uint32, bool) {
	if uint64(in.batch[i].Controllen) < uint64(controlLen) {
		return 0, false
	}
	cmsg := (*unix.Cmsghdr)(unsafe.Pointer(in.batch[i].Control))
	if cmsg.Level != unix.SOL_SOCKET || cmsg.Type != unix.SO_RXQ_OVFL {
		return 0, false
	}
	return binary.NativeEndian.Uint32(in.control[i*controlLen+unix.SizeofCmsghdr:]), true
}
