package bench

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Where things stand in a frame of Ethernet, IPv4 and UDP.
const (
	frameSum    = 24 // IPv4's checksum
	frameSource = 26
	framePort   = 34
	frameHeader = 14 + headersSize
)

// Where things stand in the program's memory.
const (
	memoryLeft = 0  // how many datagrams of this train are still to leave
	memoryLast = 8  // when the last train was due, in ns
	memorySent = 16 // how many have left
	memorySize = 24
)

// A flood with a rate leaves in trains, as bursts come from a card that moderates its interrupts. What could not leave, because
// the core had other things to do, is made up for by one train more.
const train = 64

// What the program's registers hold throughout.
const (
	frame      = asm.R6 // the program's argument
	loaded     = asm.R7 // the round; before that, the memory
	sourceAddr = asm.R8 // and before that, the length of the frame
	sourcePort = asm.R9
)

const xdpDrop = 1

// code makes each packet a datagram of the flood, and sends it by a device; those for which it is too early it drops.
func (f *flood) code(memory, rounds, players *ebpf.Map, device int) asm.Instructions {
	return slices.Concat(
		asm.Instructions{asm.Mov.Reg(frame, asm.R1), asm.LoadMapValue(loaded, memory.FD(), 0)},
		f.paceCode(),
		asm.Instructions{asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(loaded, asm.R1, asm.DWord, memorySent)},
		pickCode(rounds),
		loadCode(int32(rounds.ValueSize()-8)),
		f.sourceCode(players),
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

// paceCode goes on with what is due.
func (f *flood) paceCode() asm.Instructions {
	if f.rate == 0 {
		return nil
	}
	every := train * time.Second / time.Duration(f.rate)
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

// pickCode points R0 at one of a map's values, by chance.
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

// loadCode makes the packet the round that R0 points at, whose frame is of at most so many bytes.
func loadCode(most int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(loaded, asm.R0),
		asm.LoadMem(sourceAddr, loaded, 0, asm.Word),
		asm.JLT.Imm(sourceAddr, frameHeader, "none"), // never, as with the next: the kernel wants to see it
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

// sourceCode chooses in whose name the packet is: one of the arena's sources at any port, or half of the time a player.
func (f *flood) sourceCode(players *ebpf.Map) (code asm.Instructions) {
	if f.assault.players {
		code = slices.Concat(
			asm.Instructions{asm.FnGetPrandomU32.Call(), asm.JSet.Imm(asm.R0, 1, "stranger")},
			pickCode(players),
			asm.Instructions{
				asm.LoadMem(sourceAddr, asm.R0, 0, asm.Word),
				asm.LoadMem(sourcePort, asm.R0, 4, asm.Half),
				asm.Ja.Label("write"),
			},
		)
	}
	lowest, highest := f.arena.source(0, f.assault.banned), f.arena.source(1<<16-1, f.assault.banned)
	same := binary.NativeEndian.Uint32(lowest[:])
	return append(code,
		asm.FnGetPrandomU32.Call().WithSymbol("stranger"),
		asm.Mov.Reg(sourceAddr, asm.R0),
		asm.And.Imm32(sourceAddr, int32(same^binary.NativeEndian.Uint32(highest[:]))),
		asm.Or.Imm32(sourceAddr, int32(same)),
		asm.FnGetPrandomU32.Call(),
		asm.Mov.Reg(sourcePort, asm.R0),
		asm.Or.Imm(sourcePort, int32(binary.NativeEndian.Uint16([]byte{4, 0}))), // 1024 at least
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

		// The sum of ten halves of words, and of the carries.
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
