package netio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of a read. A listening socket carries many clients and may be read until a turn has its datagrams; one that was
// dialed carries a single upstream's answers to one client.
const (
	listenBatch   = 64
	dialBatch     = 8
	turnDatagrams = 256
)

// Sizes of an inbox.
const (
	inSlots  = 128
	slotSize = 64 << 10 // bytes: what the kernel may join of one peer's datagrams
	// slotStride keeps the beginnings of slots, which is all that most datagrams use, off each other's cache lines.
	slotStride = slotSize + 256
)

// inbox is slots that recvmmsg reads into, prepared once. A slot whose bytes wait to be sent on is not read into until
// they are.
type inbox struct {
	slab    []byte
	batch   [inSlots]mmsghdr
	iovecs  [inSlots]unix.Iovec
	names   [inSlots]sockaddr // of the senders
	control []byte
	notes   [inSlots]note
	next    int // first slot that is free
	first   int // slot of the first message of the last read
	current int // slot that is being given to the handler; -1 for none
}

// note is what the kernel says of a message beside its sender.
type note struct {
	size int // of each datagram in it; 0: it is but one
	at   at  // the address it was sent to, where the socket asks for that
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

// room is how many messages the next read takes of the batch that is asked for.
func (in *inbox) room(batch int) int { return min(batch, inSlots-in.next) }

// read reads up to so many messages, for which there must be room, and if it is to, who sent them.
func (in *inbox) read(fd, room int, named bool) (n int, errno syscall.Errno) {
	in.first = in.next
	batch := in.batch[in.first : in.first+room]
	for i := range batch { // the kernel takes these lengths as room, and gives them as length
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
		in.notes[in.first+i] = note{}
		if batch[i].Controllen > 0 {
			in.notes[in.first+i].read(in.control[(in.first+i)*controlRoom:][:batch[i].Controllen])
		}
	}
	return n, 0
}

// message is the bytes of a slot.
func (in *inbox) message(slot int) []byte {
	return unsafe.Slice(in.iovecs[slot].Base, in.batch[slot].n)
}

// size is the size of the datagrams in a slot; its last may be shorter.
func (in *inbox) size(slot int) int {
	if size := in.notes[slot].size; size > 0 {
		return size
	}
	return int(in.batch[slot].n)
}

// tooLarge reports whether the datagrams of a slot are longer than a datagram may be.
func (in *inbox) tooLarge(slot int) bool {
	return in.batch[slot].Flags&unix.MSG_TRUNC != 0 || in.size(slot) > MaxDatagram
}

// lend keeps the slot at hand from being read into, if it has the datagram, until free. It reports whether it has.
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

// free tells that nothing waits to be sent on any more.
func (in *inbox) free() { in.next = 0 }
