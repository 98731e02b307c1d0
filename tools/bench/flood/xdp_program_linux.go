package flood

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Offsets in a frame of Ethernet, IPv4 and UDP.
const (
	frameSum    = 24 // IPv4's checksum
	frameSource = 26
	framePort   = 34
	frameHeader = 14 + headersSize
)

// Offsets in the program's memory.
const (
	memoryLeft = 0  // datagrams of the current train that are not sent yet
	memoryLast = 8  // time when the last train was due, in ns
	memorySent = 16 // datagrams sent
	memorySize = 24
)

// train is the number of datagrams that a flood with a rate sends at once, as bursts come from a card with interrupt
// moderation. After a delay of the core, one extra train makes up for missed ones.
const train = 64

// Fixed use of the program's registers.
const (
	frame      = asm.R6 // the program's argument
	loaded     = asm.R7 // the memory, later the chosen frame with its length and sum
	sourceAddr = asm.R8 // the frame's length, later the source address
	sourcePort = asm.R9
)

const xdpDrop = 1

// code turns each packet into a datagram of the flood and sends it through a device. It drops a packet that comes
// before the next datagram is due.
func (p *plan) code(memory, frames, clients *ebpf.Map, device int) asm.Instructions {
	return slices.Concat(
		asm.Instructions{asm.Mov.Reg(frame, asm.R1), asm.LoadMapValue(loaded, memory.FD(), 0)},
		p.paceCode(),
		asm.Instructions{asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(loaded, asm.R1, asm.DWord, memorySent)},
		pickCode(frames),
		loadCode(int32(frames.ValueSize()-8)),
		p.sourceCode(clients),
		writeCode(),
		asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(device)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("none"),
			asm.Return(),
		},
	)
}

// paceCode drops the packet unless a datagram is due.
func (p *plan) paceCode() asm.Instructions {
	if p.rate == 0 {
		return nil
	}
	every := train * time.Second / time.Duration(p.rate)
	return asm.Instructions{
		asm.LoadMem(asm.R2, loaded, memoryLeft, asm.DWord),
		asm.JNE.Imm(asm.R2, 0, "due"),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, loaded, memoryLast, asm.DWord),
		asm.LoadImm(asm.R3, int64(every), asm.DWord),
		asm.Add.Reg(asm.R1, asm.R3),
		asm.JLT.Reg(asm.R0, asm.R1, "none"),
		asm.Sub.Reg(asm.R0, asm.R3),
		asm.JGE.Reg(asm.R1, asm.R0, "train"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.StoreMem(loaded, memoryLast, asm.R1, asm.DWord).WithSymbol("train"),
		asm.Mov.Imm(asm.R2, train),
		asm.Sub.Imm(asm.R2, 1).WithSymbol("due"),
		asm.StoreMem(loaded, memoryLeft, asm.R2, asm.DWord),
	}
}

// pickCode points R0 at a random value of a map.
func pickCode(m *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Imm32(asm.R0, int32(m.MaxEntries())),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "none"), // never
	}
}

// loadCode replaces the packet by the frame that R0 points at. Most is the size of the largest frame.
func loadCode(most int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(loaded, asm.R0),
		asm.LoadMem(sourceAddr, loaded, 0, asm.Word),
		asm.JLT.Imm(sourceAddr, frameHeader, "none"), // never, as on the next line: the verifier demands both checks
		asm.JGT.Imm(sourceAddr, most, "none"),
		asm.LoadMem(asm.R2, frame, 0, asm.Word),
		asm.LoadMem(asm.R3, frame, 4, asm.Word),
		asm.Add.Reg(asm.R2, sourceAddr),
		asm.Sub.Reg(asm.R2, asm.R3),
		asm.Mov.Reg(asm.R1, frame),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "none"),
		asm.Mov.Reg(asm.R1, frame),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, loaded),
		asm.Add.Imm(asm.R3, 8),
		asm.Mov.Reg(asm.R4, sourceAddr),
		asm.FnXdpStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "none"),
	}
}

// sourceCode chooses the source address: a source of the testbed with a random port, or in half of a replay a client's.
func (p *plan) sourceCode(clients *ebpf.Map) (code asm.Instructions) {
	if p.attack.replay {
		code = slices.Concat(
			asm.Instructions{asm.FnGetPrandomU32.Call(), asm.JSet.Imm(asm.R0, 1, "stranger")},
			pickCode(clients),
			asm.Instructions{
				asm.LoadMem(sourceAddr, asm.R0, 0, asm.Word),
				asm.LoadMem(sourcePort, asm.R0, 4, asm.Half),
				asm.Ja.Label("write"),
			},
		)
	}
	lowest, highest := p.testbed.source(0, p.attack.banned), p.testbed.source(1<<16-1, p.attack.banned)
	fixed := binary.NativeEndian.Uint32(lowest[:])
	return append(code,
		asm.FnGetPrandomU32.Call().WithSymbol("stranger"),
		asm.Mov.Reg(sourceAddr, asm.R0),
		asm.And.Imm32(sourceAddr, int32(fixed^binary.NativeEndian.Uint32(highest[:]))),
		asm.Or.Imm32(sourceAddr, int32(fixed)),
		asm.FnGetPrandomU32.Call(),
		asm.Mov.Reg(sourcePort, asm.R0),
		asm.Or.Imm(sourcePort, int32(binary.NativeEndian.Uint16([]byte{4, 0}))), // at least 1024
	)
}

// writeCode writes the source and the checksum.
func writeCode() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, frame, 0, asm.Word).WithSymbol("write"),
		asm.LoadMem(asm.R3, frame, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, frameHeader),
		asm.JGT.Reg(asm.R4, asm.R3, "none"), // never
		asm.StoreMem(asm.R2, frameSource, sourceAddr, asm.Word),
		asm.StoreMem(asm.R2, framePort, sourcePort, asm.Half),

		// The sum of ten 16-bit words and of the carries.
		asm.LoadMem(asm.R1, loaded, 4, asm.Word),
		asm.Mov.Reg32(asm.R4, sourceAddr),
		asm.Add.Reg(asm.R1, asm.R4),
		asm.Mov.Reg(asm.R4, asm.R1),
		asm.RSh.Imm(asm.R4, 16),
		asm.And.Imm(asm.R1, 0xffff),
		asm.Add.Reg(asm.R1, asm.R4),
		asm.Mov.Reg(asm.R4, asm.R1),
		asm.RSh.Imm(asm.R4, 16),
		asm.And.Imm(asm.R1, 0xffff),
		asm.Add.Reg(asm.R1, asm.R4),
		asm.Xor.Imm(asm.R1, -1),
		asm.StoreMem(asm.R2, frameSum, asm.R1, asm.Half),
	}
}
