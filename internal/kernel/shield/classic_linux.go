package shield

import (
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/kernel"
)

// GuardClassic is Guard for processes without the right to use eBPF. It attaches a classic filter, which any process
// may put on its sockets. The filter drops datagrams with an impossible first byte, and, unless clients is nil, most
// strangers. It knows no bans and no rates, and counts nothing. If there is nothing to check, it attaches no filter;
// filters reports whether the socket has one now.
func GuardClassic(socket syscall.Conn, possible FirstBytes, clients *ClientBitmap) (filters bool, err error) {
	if possible.any() && clients == nil {
		return false, Unguard(socket)
	}
	if err := attachClassic(socket, classicCode(&possible, clients)); err != nil {
		return false, &kernel.Unavailable{What: "classic socket filter", Err: err}
	}
	return true, nil
}

// attachClassic replaces the filter of a socket.
func attachClassic(socket syscall.Conn, code []bpf.Instruction) error {
	program, err := bpf.Assemble(code)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var attached error
	whole := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err = raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, whole)
	})
	if err != nil {
		return err
	}
	return attached
}

// whole is more than any datagram has, so that all of it passes.
const whole = 1 << 16

// classicCode passes a datagram with a possible first byte, if clients lets it pass. An empty datagram fails at the
// load and is dropped. If every byte is possible, there is no such check.
func classicCode(possible *FirstBytes, clients *ClientBitmap) (code []bpf.Instruction) {
	if clients == nil {
		return append(rangesCode(possible.Has, bpf.RetConstant{Val: whole}), bpf.RetConstant{})
	}
	if possible.any() {
		return clients.code(possible)
	}
	code = append(rangesCode(possible.Has, bpf.Jump{Skip: toPartition}), bpf.RetConstant{})
	for i, in := range code {
		if in == (bpf.Jump{Skip: toPartition}) {
			code[i] = bpf.Jump{Skip: uint32(len(code) - i - 1)}
		}
	}
	return append(code, clients.code(possible)...)
}

// rangesCode runs then for a datagram whose first byte is in a set, as a list of ranges.
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
