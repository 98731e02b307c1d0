package shield

import (
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/kernel"
)

// GuardPlainly is Guard for those who may not use eBPF: a classic filter, which any process may put on its sockets, drops what
// begins with none of the possible bytes, and strangers by a Sieve if that is not nil. It knows no bans and no rates, and counts
// nothing. Where there is nothing to check it makes no filter.
func GuardPlainly(socket syscall.Conn, possible FirstBytes, sieve *Sieve) error {
	if possible.any() && sieve == nil {
		return Unguard(socket)
	}
	program, err := bpf.Assemble(plainCode(&possible, sieve))
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

// whole is more than any datagram has: all of it passes.
const whole = 1 << 16

// plainCode passes a datagram whose first byte is in one of the set's ranges, if the sieve lets it. The load of an empty one's
// drops it. Of the set of everything there is no such check.
func plainCode(possible *FirstBytes, sieve *Sieve) (code []bpf.Instruction) {
	if sieve == nil {
		return append(rangesCode(possible.Has, bpf.RetConstant{Val: whole}), bpf.RetConstant{})
	}
	if possible.any() {
		return sieve.code(possible)
	}
	code = append(rangesCode(possible.Has, bpf.Jump{Skip: toChance}), bpf.RetConstant{})
	for i, in := range code {
		if in == (bpf.Jump{Skip: toChance}) {
			code[i] = bpf.Jump{Skip: uint32(len(code) - i - 1)}
		}
	}
	return append(code, sieve.code(possible)...)
}

// rangesCode does what then says with a datagram whose first byte is in one of the ranges of a set.
func rangesCode(has func(byte) bool, then bpf.Instruction) []bpf.Instruction {
	code := []bpf.Instruction{bpf.LoadAbsolute{Off: udpHeader, Size: 1}}
	for b := 0; b < 256; b++ {
		if !has(byte(b)) {
			continue
		}
		first := b
		for b < 255 && has(byte(b+1)) {
			b++
		}
		code = append(code,
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(first), SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(b), SkipTrue: 1},
			then,
		)
	}
	return code
}
