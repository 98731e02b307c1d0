package shield

import (
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"tidegate/kernel"
)

// GuardPlainly is Guard for those who may not use eBPF: a classic filter, which any process may put on its sockets, drops what
// begins with none of the possible bytes. It knows no bans and no rates, and counts nothing. Of a set without a byte it
// makes no filter.
func GuardPlainly(socket syscall.Conn, possible FirstBytes) error {
	if possible.any() {
		return Unguard(socket)
	}
	program, err := bpf.Assemble(plainCode(&possible))
	if err != nil {
		return &kernel.Unavailable{What: "classic socket filter", Err: err}
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	raw, err := socket.SyscallConn()
	if err == nil {
		var attached error
		whole := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err = raw.Control(func(fd uintptr) {
			attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, whole)
		})
		if err == nil {
			err = attached
		}
	}
	if err != nil {
		return &kernel.Unavailable{What: "classic socket filter", Err: err}
	}
	return nil
}

// plainCode passes a datagram whose first byte is in one of the set's ranges. The load of an empty one's drops it.
func plainCode(possible *FirstBytes) []bpf.Instruction {
	const whole = 1 << 16 // more than any datagram has
	code := []bpf.Instruction{bpf.LoadAbsolute{Off: udpHeader, Size: 1}}
	for b := 0; b < 256; b++ {
		if !possible.Has(byte(b)) {
			continue
		}
		first := b
		for b < 255 && possible.Has(byte(b+1)) {
			b++
		}
		code = append(code,
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(first), SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(b), SkipTrue: 1},
			bpf.RetConstant{Val: whole},
		)
	}
	return append(code, bpf.RetConstant{})
}
