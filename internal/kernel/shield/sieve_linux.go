package shield

import (
	"math"

	"golang.org/x/net/bpf"
)

// network is where a classic filter finds the IP header (SKF_NET_OFF in linux/filter.h). The packet's data begins with the
// UDP header.
const network = 0xfff0_0000

// toChance stands for a jump to the end, where the class decides, until it is known how far that is.
const toChance = math.MaxUint32

// code passes a datagram whose source's bit is set, unless it is what only strangers say, or whose source is of the class whose
// turn it is.
func (s *Sieve) code(first *FirstBytes) []bpf.Instruction {
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
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: sieveMixer},
		bpf.StoreScratch{Src: bpf.RegA},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 15},
		bpf.TAX{},
		bpf.LoadScratch{Dst: bpf.RegA},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: sieveMixer},
		bpf.StoreScratch{Src: bpf.RegA},
	)
	if first.openings != (byteSet{}) {
		code = append(code, rangesCode(first.Opens, bpf.Jump{Skip: toChance})...)
		code = append(code, bpf.LoadScratch{Dst: bpf.RegA})
	}
	code = append(code,
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 31},
		bpf.TAX{},
		bpf.LoadScratch{Dst: bpf.RegA},
	)
	code = append(code, s.tree(0, len(s.leaves))...)
	for i, in := range code {
		if jump, ok := in.(bpf.Jump); ok && jump.Skip == toChance {
			code[i] = bpf.Jump{Skip: uint32(len(code) - i - 1)}
		}
	}
	return append(code,
		bpf.LoadScratch{Dst: bpf.RegA},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: leafBits},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: s.classes - 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: s.turn, SkipTrue: 1},
		bpf.RetConstant{Val: whole},
		bpf.RetConstant{},
	)
}

// hashCode leaves the hash of the address's words, which are at these places of the IP header, in X.
func (s *Sieve) hashCode(words ...uint32) []bpf.Instruction {
	code := []bpf.Instruction{bpf.LoadConstant{Dst: bpf.RegX, Val: s.seed}}
	for _, at := range words {
		code = append(code,
			bpf.LoadAbsolute{Off: network + at, Size: 4},
			bpf.ALUOpX{Op: bpf.ALUOpXor},
			bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: sieveMixer},
			bpf.TAX{},
		)
	}
	return code
}

// tree finds the leaf, of those from first to last, that is named by the highest bits of A, and looks at the bit in it that X
// says.
func (s *Sieve) tree(first, last int) []bpf.Instruction {
	if last-first == 1 {
		return []bpf.Instruction{
			bpf.LoadConstant{Dst: bpf.RegA, Val: s.leaves[first]},
			bpf.ALUOpX{Op: bpf.ALUOpShiftRight},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 1, SkipTrue: 1},
			bpf.RetConstant{Val: whole},
			bpf.Jump{Skip: toChance},
		}
	}
	middle := (first + last) / 2
	left := s.tree(first, middle)
	code := append([]bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(middle) << s.leafShift(), SkipTrue: 1},
		bpf.Jump{Skip: uint32(len(left))},
	}, left...)
	return append(code, s.tree(middle, last)...)
}
