package shield

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// mapMapable is BPF_F_MMAPABLE: the map's memory is ours too, so that it is written without a system call.
const mapMapable = 1 << 10

// Gate holds strangers back before the listening sockets of one loop, so that they leave their room there to those whom the
// loop knows. It bounds what strangers cost, whatever they send and however many addresses they forge. Its methods are for
// the loop alone. The nil Gate is none.
type Gate struct {
	gates  *gates
	offset uint32 // of the cell
	cell   *cell
}

// cell is what a Gate and the programs share.
type cell struct {
	room   int64 // how many datagrams of strangers may still come
	filled int64 // when there was room last, in ns of the monotonic clock
	kept   int64 // whether the loop has read all since, 1 or 0
	_      int64
}

const (
	roomAt   = 0
	filledAt = 8
	keptAt   = 16
	cellSize = 32
)

// gates are those of a Shield, one for each loop.
type gates struct {
	known  *known
	cells  *ebpf.Map // one value: all cells
	memory []byte    // of cells
	loops  int
}

func newGates(o *Options) (g *gates, err error) {
	g = &gates{loops: max(o.Loops, 1)}
	if g.known, err = newKnown(o.Known); err != nil {
		return nil, err
	}
	g.cells, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_gates", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(g.loops * cellSize), MaxEntries: 1, Flags: mapMapable,
	})
	if err == nil {
		g.memory, err = unix.Mmap(g.cells.FD(), 0, g.loops*cellSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = g.close() // what there is of it
		return nil, fmt.Errorf("map of gates: %w", err)
	}
	for loop := range g.loops {
		g.cell(loop).room = gateOpen
	}
	return g, nil
}

func (g *gates) close() error {
	err := errors.Join(g.known.close(), g.cells.Close())
	if g.memory != nil {
		err = errors.Join(err, unix.Munmap(g.memory))
		g.memory = nil
	}
	return err
}

func (g *gates) cell(loop int) *cell { return (*cell)(unsafe.Pointer(&g.memory[loop*cellSize])) }

// Gate is that of a loop, the first of which is 0; nil where there are not so many. It must not be used after Close.
func (s *Shield) Gate(loop int) *Gate {
	if loop >= s.gates.loops {
		return nil
	}
	return &Gate{gates: s.gates, offset: uint32(loop) * cellSize, cell: s.gates.cell(loop)}
}

// Known is how many clients the Gates know.
func (s *Shield) Known() int { return int(s.gates.known.count.Load()) }

// Keep tells that the loop keeps up: it has read all that there was.
func (g *Gate) Keep() {
	if g == nil {
		return
	}
	atomic.StoreInt64(&g.cell.kept, 1)
	if atomic.LoadInt64(&g.cell.room) > gateRoom {
		atomic.StoreInt64(&g.cell.room, gateRoom)
	}
}

// Know has what a client sends to a port pass the Gate from now on. One for whom there is no room, beyond Options.Known,
// stays a stranger here.
func (g *Gate) Know(client netip.AddrPort, port uint16) {
	if g != nil {
		g.gates.known.add(client, port)
	}
}

// Forget makes a stranger of a client, once for each Know.
func (g *Gate) Forget(client netip.AddrPort, port uint16) {
	if g != nil {
		g.gates.known.remove(client, port)
	}
}

// knownCode goes to "known" if the source is, unless it says what only strangers have to say.
func (g *gates) knownCode() asm.Instructions {
	code := append(firstCode(openingsAt), asm.JNE.Imm(asm.R3, 0, "stranger"))
	return append(append(code, g.known.code("known")...), asm.Mov.Imm(asm.R1, 0).WithSymbol("stranger"))
}

// socketCode lets a stranger through while there is room at a loop, and takes the room.
func (g *gates) socketCode(offset uint32) asm.Instructions {
	code := append(g.knownCode(),
		asm.LoadMapValue(tables, g.cells.FD(), offset),
		asm.LoadMem(asm.R2, tables, roomAt, asm.DWord),
		asm.JSGT.Imm(asm.R2, 0, "room"),
		asm.FnKtimeGetNs.Call(),
	)
	code = append(code, refillCode(0, "refill")...)
	return append(code,
		asm.Mov.Imm(asm.R1, int32(Crowd)),
		asm.Ja.Label("count"),
		asm.StoreMem(tables, filledAt, asm.R0, asm.DWord).WithSymbol("refill"),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(tables, keptAt, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R2, gateRoom),
		asm.StoreMem(tables, roomAt, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("room"),
		asm.Sub.Reg(asm.R1, weight),
		asm.AddAtomic.Mem(tables, asm.R1, asm.DWord, roomAt),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("known"),
	)
}

// refillCode goes to a label if it is time for more room in the cell at an offset. R0 is the time.
func refillCode(offset int16, then string) asm.Instructions {
	not := "no " + then + fmt.Sprint(offset)
	return asm.Instructions{
		asm.LoadMem(asm.R2, tables, offset+filledAt, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Sub.Reg(asm.R3, asm.R2),
		asm.JSGE.Imm(asm.R3, int32(gatePatience), then),
		asm.JSLT.Imm(asm.R3, int32(gateEvery), not),
		asm.LoadMem(asm.R2, tables, offset+keptAt, asm.DWord),
		asm.JNE.Imm(asm.R2, 0, then),
		asm.Mov.Imm(asm.R1, 0).WithSymbol(not),
	}
}

// interfaceCode lets a stranger through while there is, or would be, room at any loop, one of which takes it: which one will
// have the datagram is not known yet.
func (g *gates) interfaceCode() asm.Instructions {
	code := append(g.knownCode(), asm.LoadMapValue(tables, g.cells.FD(), 0))
	for loop := range g.loops {
		code = append(code,
			asm.LoadMem(asm.R2, tables, int16(loop*cellSize+roomAt), asm.DWord),
			asm.JSGT.Imm(asm.R2, 0, "known"),
		)
	}
	code = append(code, asm.FnKtimeGetNs.Call())
	for loop := range g.loops {
		code = append(code, refillCode(int16(loop*cellSize), "known")...)
	}
	return append(code,
		asm.Mov.Imm(asm.R1, int32(Crowd)),
		asm.Ja.Label("count"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("known"),
	)
}
