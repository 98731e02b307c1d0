package shield

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// element changes one element of a map by a raw system call: the loop does so twice for each session, and the library's way
// allocates and takes twice the time. It is not safe for concurrent use.
type element struct {
	key   knownKey
	value byte
	call  elementCall
}

// elementCall is the kernel's union bpf_attr for BPF_MAP_UPDATE_ELEM and BPF_MAP_DELETE_ELEM.
type elementCall struct {
	fd         uint32
	_          uint32
	key, value uint64 // addresses
	flags      uint64
}

// add adds the key, and reports whether it was not there and there was room.
func (e *element) add(fd int, key knownKey) bool {
	e.call.flags = unix.BPF_NOEXIST
	return e.do(unix.BPF_MAP_UPDATE_ELEM, fd, key)
}

// remove removes the key, and reports whether it was there.
func (e *element) remove(fd int, key knownKey) bool {
	e.call.flags = 0
	return e.do(unix.BPF_MAP_DELETE_ELEM, fd, key)
}

func (e *element) do(command uintptr, fd int, key knownKey) bool {
	e.key, e.call.fd = key, uint32(fd)
	e.call.key, e.call.value = address(&e.key[0]), 0
	if command == unix.BPF_MAP_UPDATE_ELEM {
		e.call.value = address(&e.value)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&e.call)), unsafe.Sizeof(e.call))
	return errno == syscall.Errno(0)
}

func address(b *byte) uint64 { return uint64(uintptr(unsafe.Pointer(b))) }
