package shield

import (
	"math"
	"time"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"
)

// Stack layout of both programs. The prefix length stands before the address, as in a key of the ban tries. The address
// is IPv4-mapped for IPv4.
const (
	addrAt   = -16 // 16 bytes: source address
	prefixAt = -20 // 4 bytes: 128
	placeAt  = -32 // 4 bytes: the source's place in the rates
	reasonAt = -44 // 4 bytes: index into the tally
	portsAt  = -48 // 4 bytes: ports of source and listener, in network order
	targetAt = -72 // 20 bytes: address and port of the listener, in XDP
)

// Register use.
const (
	ctx    = asm.R6 // the program's argument
	tables = asm.R7 // pointer to the table of first bytes; after the gate, to its cell
	first  = asm.R8 // first byte of the payload, or noByte
	weight = asm.R9 // number of datagrams in the packet
)

// verdicts are the return values of a kind of program.
type verdicts struct{ pass, drop int32 }

// checks are the common part of both kinds of program: from a source address on the stack and filled registers to the
// verdict.
type checks struct {
	bans bans
	gate asm.Instructions // the gate's code, which ends with the label "known"; empty: no gate
	meter
	dropped   asm.Instructions // count a dropped packet, beside the meter
	interval  time.Duration    // between two datagrams of a source; 0: unlimited
	tolerance time.Duration    // how far a source may be ahead of its interval
	verdicts
}

func newChecks(o *Options, v verdicts) checks {
	c := checks{verdicts: v}
	if o.PacketRate > 0 {
		c.interval = time.Second / time.Duration(o.PacketRate)
		c.tolerance = c.interval * time.Duration(max(o.Burst, 1)-1)
	}
	return c
}

// code returns the checks, the cheapest first. Bans come before all, so that a banned network's datagrams are counted
// as banned.
func (c *checks) code() asm.Instructions {
	code := asm.Instructions{
		asm.StoreImm(asm.RFP, prefixAt, 128, asm.Word),
		asm.LoadMapPtr(asm.R1, c.bans.ipv6.FD()),
		asm.LoadMem(asm.R2, asm.RFP, addrAt, asm.DWord),
		asm.JNE.Imm(asm.R2, 0, "bans"),
		asm.LoadMem(asm.R2, asm.RFP, addrAt+8, asm.Half),
		asm.JNE.Imm(asm.R2, 0, "bans"),
		asm.LoadMem(asm.R2, asm.RFP, addrAt+10, asm.Half),
		asm.JNE.Imm(asm.R2, 0xffff, "bans"),
		asm.LoadMapPtr(asm.R1, c.bans.ipv4.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP).WithSymbol("bans"),
		asm.Add.Imm(asm.R2, prefixAt),
		asm.FnMapLookupElem.Call(),
		asm.Mov.Imm(asm.R1, int32(Banned)),
		asm.JNE.Imm(asm.R0, 0, "count"),
	}
	code = append(code, firstCode(possibleAt)...)
	code = append(code,
		asm.Mov.Imm(asm.R1, int32(FirstByte)),
		asm.JEq.Imm(asm.R3, 0, "count"),
	)
	code = append(code, c.gate...)
	if c.interval > 0 {
		code = append(code, c.rateCode()...)
	}
	return append(append(code, asm.Mov.Imm(asm.R1, int32(Passed))), c.countCode()...)
}

// Offsets of the two sets in a table.
const (
	possibleAt = 0
	openingsAt = 64
)

// firstCode sets R3 to 1 if the first byte is in one of the table's sets, else to 0.
func firstCode(set int16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, first),
		asm.RSh.Imm(asm.R2, 6),
		asm.And.Imm(asm.R2, 7),
		asm.LSh.Imm(asm.R2, 3),
		asm.Mov.Reg(asm.R3, tables),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.LoadMem(asm.R3, asm.R3, set, asm.DWord),
		asm.Mov.Reg(asm.R2, first),
		asm.And.Imm(asm.R2, 63),
		asm.RSh.Reg(asm.R3, asm.R2),
		asm.And.Imm(asm.R3, 1),
	}
}

// rateCode limits a source's rate by the generic cell rate algorithm. A datagram passes while the source's theoretical
// arrival time is at most the tolerance ahead of the clock. If two processors handle the source at once, one more
// datagram may pass.
func (c *checks) rateCode() asm.Instructions {
	return asm.Instructions{
		// An IPv6 source counts as its /64. An IPv4 source uses the half of the mapped address that holds it.
		asm.LoadMem(asm.R1, asm.RFP, addrAt, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "source"),
		asm.LoadMem(asm.R1, asm.RFP, addrAt+8, asm.DWord),
		asm.LoadImm(asm.R2, int64(c.seed), asm.DWord).WithSymbol("source"),
		asm.Xor.Reg(asm.R1, asm.R2),
		// Neighbors differ in their last byte, here the highest one, which a product alone would not spread.
		asm.Mov.Reg(asm.R3, asm.R1),
		asm.RSh.Imm(asm.R3, 32),
		asm.Xor.Reg(asm.R1, asm.R3),
		asm.LoadImm(asm.R2, mixer, asm.DWord),
		asm.Mul.Reg(asm.R1, asm.R2),
		asm.Mov.Reg(asm.R3, asm.R1),
		asm.RSh.Imm(asm.R3, 32),
		asm.Xor.Reg(asm.R1, asm.R3),
		asm.Mul.Reg(asm.R1, asm.R2),
		asm.RSh.Imm(asm.R1, int32(64-c.bits)),
		asm.StoreMem(asm.RFP, placeAt, asm.R1, asm.Word),

		asm.LoadMapPtr(asm.R1, c.rates.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, placeAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "passed"), // never: every place exists
		asm.Mov.Reg(first, asm.R0),       // the first byte is no longer needed
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R2, first, 0, asm.DWord),
		asm.JGE.Reg(asm.R2, asm.R0, "ahead"),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.Mov.Reg(asm.R3, asm.R2).WithSymbol("ahead"),
		asm.Sub.Reg(asm.R3, asm.R0),
		asm.Mov.Imm(asm.R1, int32(Rate)),
		asm.LoadImm(asm.R4, int64(c.tolerance), asm.DWord),
		asm.JGT.Reg(asm.R3, asm.R4, "count"),
		asm.Mov.Reg(asm.R5, weight),
		asm.Mul.Imm(asm.R5, int32(c.interval)), // at most a second
		asm.Add.Reg(asm.R2, asm.R5),
		asm.StoreMem(first, 0, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("passed"),
	}
}

// mixer is 2^64 divided by the golden ratio (Fibonacci hashing).
const mixer = -0x61c8864680b583eb

// countCode counts the reason in R1 and returns its verdict. Each processor has its own tally.
func (c *checks) countCode() asm.Instructions {
	code := asm.Instructions{
		asm.StoreMem(asm.RFP, reasonAt, asm.R1, asm.Word).WithSymbol("count"),
		asm.LoadMapPtr(asm.R1, c.tally.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, reasonAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "verdict"),
		asm.AddAtomic.Mem(asm.R0, weight, asm.DWord, 0),
		asm.LoadMem(asm.R1, asm.RFP, reasonAt, asm.Word).WithSymbol("verdict"),
		asm.JEq.Imm(asm.R1, int32(Passed), "pass"),
	}
	code = append(code, c.dropped...)
	return append(code,
		asm.Mov.Imm(asm.R0, c.drop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, c.pass).WithSymbol("pass"),
		asm.Return(),
	)
}

// network is the offset of the IP header for a classic filter (SKF_NET_OFF in linux/filter.h). The packet's data starts
// with the UDP header.
const network = 0xfff0_0000

// toPartition marks jumps to the partition check at the end, until its distance is known.
const toPartition = math.MaxUint32

// code passes a datagram if its source has its bit set and its first byte is no opening. It also passes a datagram if
// its source is in the current partition.
func (s *ClientBitmap) code(first *FirstBytes) []bpf.Instruction {
	six := s.hashCode(8, 12, 16, 20)
	four := append(s.hashCode(12), bpf.Jump{Skip: uint32(len(six))})
	code := []bpf.Instruction{
		bpf.LoadAbsolute{Off: network, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: 0x50, SkipFalse: uint8(len(four))},
	}
	code = append(append(code, four...), six...)
	code = append(code,
		bpf.LoadAbsolute{Off: 0, Size: 2}, // source port
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: bitmapMixer},
		bpf.StoreScratch{Src: bpf.RegA},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 15},
		bpf.TAX{},
		bpf.LoadScratch{Dst: bpf.RegA},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: bitmapMixer},
		bpf.StoreScratch{Src: bpf.RegA},
	)
	if first.openings != (byteSet{}) {
		code = append(code, rangesCode(first.Opens, bpf.Jump{Skip: toPartition})...)
		code = append(code, bpf.LoadScratch{Dst: bpf.RegA})
	}
	code = append(code,
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 31},
		bpf.TAX{},
		bpf.LoadScratch{Dst: bpf.RegA},
	)
	code = append(code, s.tree(0, len(s.words))...)
	for i, in := range code {
		if jump, ok := in.(bpf.Jump); ok && jump.Skip == toPartition {
			code[i] = bpf.Jump{Skip: uint32(len(code) - i - 1)}
		}
	}
	return append(code,
		bpf.LoadScratch{Dst: bpf.RegA},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: wordBits},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: s.partitions - 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: s.turn, SkipTrue: 1},
		bpf.RetConstant{Val: whole},
		bpf.RetConstant{},
	)
}

// hashCode computes into X the hash of the address words at these offsets of the IP header.
func (s *ClientBitmap) hashCode(words ...uint32) []bpf.Instruction {
	code := []bpf.Instruction{bpf.LoadConstant{Dst: bpf.RegX, Val: s.seed}}
	for _, at := range words {
		code = append(code,
			bpf.LoadAbsolute{Off: network + at, Size: 4},
			bpf.ALUOpX{Op: bpf.ALUOpXor},
			bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: bitmapMixer},
			bpf.TAX{},
		)
	}
	return code
}

// tree is a binary search over the words from first to last, by the highest bits of A. It tests the bit number X of the
// word.
func (s *ClientBitmap) tree(first, last int) []bpf.Instruction {
	if last-first == 1 {
		return []bpf.Instruction{
			bpf.LoadConstant{Dst: bpf.RegA, Val: s.words[first]},
			bpf.ALUOpX{Op: bpf.ALUOpShiftRight},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 1, SkipTrue: 1},
			bpf.RetConstant{Val: whole},
			bpf.Jump{Skip: toPartition},
		}
	}
	middle := (first + last) / 2
	left := s.tree(first, middle)
	code := append([]bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(middle) << s.wordShift(), SkipTrue: 1},
		bpf.Jump{Skip: uint32(len(left))},
	}, left...)
	return append(code, s.tree(middle, last)...)
}
