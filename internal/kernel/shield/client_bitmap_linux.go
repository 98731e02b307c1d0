package shield

import (
	"math"

	"golang.org/x/net/bpf"
)

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
