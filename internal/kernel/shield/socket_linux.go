package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"tidegate/internal/kernel"
)

// Offsets in the context of a socket filter, struct __sk_buff, and in the headers.
const (
	skbProtocol = 16  // EtherType of the packet, in network order
	skbSegments = 164 // number of merged datagrams; 0 means one

	udpHeader    = 8
	sourceInIPv4 = 12
	sourceInIPv6 = 8
	fromNetwork  = 1 // BPF_HDR_START_NET

	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// Guard attaches a filter to a UDP socket, in place of an earlier one, with its loop's Gate unless gate is nil. The
// filter lasts until the socket closes, or until the next Guard or Unguard. Close does not remove it. Sockets with the
// same first bytes and Gate share a program: to load one takes the kernel most of a millisecond.
func (s *Shield) Guard(socket syscall.Conn, possible FirstBytes, gate *Gate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	program, err := s.sharedProgram(possible, gate)
	if err == nil {
		err = link.AttachSocketFilter(socket, program)
	}
	if err != nil {
		return &kernel.Unavailable{What: "socket filter", Err: err}
	}
	return nil
}

// Load loads the program of later calls of Guard, which then take no longer than any system call.
func (s *Shield) Load(possible FirstBytes, gate *Gate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.sharedProgram(possible, gate); err != nil {
		return &kernel.Unavailable{What: "socket filter", Err: err}
	}
	return nil
}

// socketKey is what programs of sockets differ in.
type socketKey struct {
	possible FirstBytes
	gated    bool
	offset   uint32 // of the Gate
}

// maxPrograms bounds the programs that wait for further sockets. Sockets hold theirs.
const maxPrograms = 64

// sharedProgram returns the program of sockets. The Shield owns it. mu is held.
func (s *Shield) sharedProgram(possible FirstBytes, gate *Gate) (*ebpf.Program, error) {
	key := socketKey{possible: possible, gated: gate != nil}
	if gate != nil {
		key.offset = gate.offset
	}
	if program := s.programs[key]; program != nil {
		return program, nil
	}
	program, err := s.socketProgram(possible, gate)
	if err != nil {
		return nil, err
	}
	if len(s.programs) >= maxPrograms {
		_ = s.closePrograms() // of no use without their sockets
	}
	s.programs[key] = program
	return program, nil
}

// closePrograms closes the programs of sockets, which their sockets hold. mu is held.
func (s *Shield) closePrograms() error {
	var errs []error
	for key, program := range s.programs {
		errs = append(errs, program.Close())
		delete(s.programs, key)
	}
	return errors.Join(errs...)
}

// Unguard removes a socket's filter, if it has one.
func Unguard(socket syscall.Conn) error {
	if err := link.DetachSocketFilter(socket); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("detach socket filter: %w", err)
	}
	return nil
}

func (s *Shield) socketProgram(possible FirstBytes, gate *Gate) (*ebpf.Program, error) {
	possibles, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_first", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(binary.Size(table{})), MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: possible.table()}},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = possibles.Close() }() // the program holds it
	c := newChecks(&s.options, verdicts{pass: -1, drop: 0})
	c.bans, c.meter = s.bans, s.sockets
	if gate != nil {
		c.gate, c.dropped = s.gates.socketCode(gate.offset), s.gates.dropCode(gate.offset)
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tidegate_socket", Type: ebpf.SocketFilter, License: license,
		Instructions: append(socketCode(possibles.FD()), c.code()...),
	})
}

// socketCode fills the stack and the registers. The packet's data starts with the UDP header: the kernel has removed
// the earlier headers, and has checked that the UDP header is complete.
func socketCode(possibles int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(ctx, asm.R1),
		asm.LoadMapValue(tables, possibles, 0),
		asm.LoadMem(weight, ctx, skbSegments, asm.Word),
		asm.JNE.Imm(weight, 0, "merged"),
		asm.Mov.Imm(weight, 1),

		asm.Mov.Reg(asm.R1, ctx).WithSymbol("merged"),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, portsAt),
		asm.Mov.Imm(asm.R4, 4),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),

		asm.StoreImm(asm.RFP, reasonAt, 0, asm.Word),
		asm.Mov.Reg(asm.R1, ctx),
		asm.Mov.Imm(asm.R2, udpHeader),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, reasonAt),
		asm.Mov.Imm(asm.R4, 1),
		asm.FnSkbLoadBytes.Call(),
		asm.Mov.Imm(first, noByte),
		asm.JNE.Imm(asm.R0, 0, "source address"),
		asm.LoadMem(first, asm.RFP, reasonAt, asm.Byte),

		asm.LoadMem(asm.R1, ctx, skbProtocol, asm.Word).WithSymbol("source address"),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Mov.Imm(asm.R5, fromNetwork),
		asm.JEq.Imm(asm.R1, etherIPv6, "ipv6"),
		asm.JNE.Imm(asm.R1, etherIPv4, "pass"),

		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, addrAt, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, addrAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, addrAt+10, 0xffff, asm.Half),
		asm.Mov.Imm(asm.R2, sourceInIPv4),
		asm.Add.Imm(asm.R3, addrAt+12),
		asm.Mov.Imm(asm.R4, 4),
		asm.Ja.Label("load"),

		asm.Mov.Imm(asm.R2, sourceInIPv6).WithSymbol("ipv6"),
		asm.Add.Imm(asm.R3, addrAt),
		asm.Mov.Imm(asm.R4, 16),

		asm.Mov.Reg(asm.R1, ctx).WithSymbol("load"),
		asm.FnSkbLoadBytesRelative.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
	}
}

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
