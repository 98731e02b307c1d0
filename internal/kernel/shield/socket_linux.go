package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

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
