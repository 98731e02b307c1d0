package netio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of a read. A listening socket serves many clients, so it is read until the turn has enough datagrams. A
// dialed socket carries the answers of one upstream to one client.
const (
	listenBatch   = 64
	dialBatch     = 8
	turnDatagrams = 256
)

// Sizes of an inbox.
const (
	inSlots  = 128
	slotSize = 64 << 10 // bytes: the kernel may join datagrams of one peer
	// slotStride keeps the starts of slots on separate cache lines. Most datagrams use only the start.
	slotStride = slotSize + 256
)

// inbox holds slots for recvmmsg, prepared once. A slot with bytes that wait to be forwarded is not reused before
// they are sent.
type inbox struct {
	slab     []byte
	batch    [inSlots]mmsghdr
	iovecs   [inSlots]unix.Iovec
	names    [inSlots]sockaddr // of the senders
	control  []byte
	metadata [inSlots]metadata
	next     int // first free slot
	first    int // slot of the first message of the last read
	current  int // slot that is being delivered; -1 for none
}

func newInbox() *inbox {
	in := &inbox{
		slab:    make([]byte, inSlots*slotStride),
		control: make([]byte, inSlots*controlRoom),
		current: -1,
	}
	for i := range in.batch {
		h := &in.batch[i]
		in.iovecs[i].Base = &in.slab[i*slotStride]
		in.iovecs[i].SetLen(slotSize)
		h.Iov = &in.iovecs[i]
		h.SetIovlen(1)
		h.Control = &in.control[i*controlRoom]
	}
	return in
}

// room returns the number of messages that the next read can take of a batch.
func (in *inbox) room(batch int) int { return min(batch, inSlots-in.next) }

// read receives up to room messages. With named, it also receives the senders' addresses. There must be room for all.
func (in *inbox) read(fd, room int, named bool) (n int, errno syscall.Errno) {
	in.first = in.next
	batch := in.batch[in.first : in.first+room]
	for i := range batch { // input: room; output: length
		batch[i].SetControllen(controlRoom)
		batch[i].Name, batch[i].Namelen = nil, 0
		if named {
			batch[i].Name, batch[i].Namelen = (*byte)(unsafe.Pointer(&in.names[in.first+i])), unix.SizeofSockaddrInet6
		}
	}
	if n, errno = recvmmsg(fd, batch); errno != 0 {
		return 0, errno
	}
	for i := range batch[:n] {
		in.metadata[in.first+i] = metadata{}
		if batch[i].Controllen > 0 {
			in.metadata[in.first+i].read(in.control[(in.first+i)*controlRoom:][:batch[i].Controllen])
		}
	}
	return n, 0
}

// message returns the bytes of a slot.
func (in *inbox) message(slot int) []byte {
	return unsafe.Slice(in.iovecs[slot].Base, in.batch[slot].n)
}

// size returns the size of the datagrams in a slot. The last one may be shorter.
func (in *inbox) size(slot int) int {
	if size := in.metadata[slot].size; size > 0 {
		return size
	}
	return int(in.batch[slot].n)
}

// tooLarge reports whether the datagrams of a slot exceed the limit.
func (in *inbox) tooLarge(slot int) bool {
	return in.batch[slot].Flags&unix.MSG_TRUNC != 0 || in.size(slot) > MaxDatagram
}

// lend protects the current slot until free, if it contains the datagram. It reports whether it does.
func (in *inbox) lend(datagram []byte) bool {
	if in.current < 0 || len(datagram) == 0 {
		return false
	}
	begin := uintptr(unsafe.Pointer(in.iovecs[in.current].Base))
	if p := uintptr(unsafe.Pointer(&datagram[0])); p < begin || p >= begin+slotSize {
		return false
	}
	in.next = max(in.next, in.current+1)
	return true
}

// free marks all slots as reusable, because nothing waits to be forwarded any more.
func (in *inbox) free() { in.next = 0 }
