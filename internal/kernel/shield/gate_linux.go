package shield

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A Gate passes gateRoom datagrams of strangers at once. It passes as many again once the loop has read everything, but
// not within gateEvery. That is at most 51,200 per second, about as many as a loop can read beside its clients'
// traffic. The waiting datagrams take at most half of a buffer of 2 MiB. After gatePatience without a report of the
// loop, a few more pass.
const (
	gateRoom     = 512
	gateEvery    = 10 * time.Millisecond
	gatePatience = 100 * time.Millisecond
)

// gateOpen is the room of a Gate until its loop first reads. Until then a predecessor process may be reading, whose
// clients are unknown here.
const gateOpen = 1 << 40

// mapMapable is BPF_F_MMAPABLE: the map's memory is mapped here, so that writes need no system call.
const mapMapable = 1 << 10

// Gate limits strangers' datagrams before the listening sockets of one loop, so that they leave room in the buffers to
// known clients. It bounds the cost of strangers, for any datagrams and any number of forged addresses. Only its
// loop may use it. A nil Gate does nothing.
type Gate struct {
	gates  *gates
	offset uint32 // of the cell
	cell   *cell
}

// cell is the memory that a Gate and the programs share.
type cell struct {
	room    int64 // datagrams of strangers that may still pass
	filled  int64 // time of the last refill, in ns of the monotonic clock
	drained int64 // whether the loop has read everything since the refill: 1 or 0
	drops   int64 // packets dropped by the filters of the loop's sockets, counted as the kernel counts drops of a socket
}

const (
	roomAt    = 0
	filledAt  = 8
	drainedAt = 16
	dropsAt   = 24
	cellSize  = 32
)

// gates are a Shield's Gates, one per loop.
type gates struct {
	known  *known
	cells  *ebpf.Map // one value: all cells
	memory []byte    // the mapped memory of cells
	loops  int
}

func newGates(o *Options) (g *gates, err error) {
	g = &gates{loops: max(o.Loops, 1)}
	if g.known, err = newKnown(o.Known); err != nil {
		return nil, err
	}
	g.cells, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_gates", Type: ebpf.Array, Flags: mapMapable,
		KeySize: 4, ValueSize: uint32(g.loops * cellSize), MaxEntries: 1,
	})
	if err == nil {
		g.memory, err = unix.Mmap(g.cells.FD(), 0, g.loops*cellSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = g.close() // close the parts that exist
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

// Gate returns the Gate of a loop, counted from 0, or nil if there are not so many loops. It must not be used after
// Close.
func (s *Shield) Gate(loop int) *Gate {
	if loop >= s.gates.loops {
		return nil
	}
	return &Gate{gates: s.gates, offset: uint32(loop) * cellSize, cell: s.gates.cell(loop)}
}

// Known returns the number of clients that the Gates know.
func (s *Shield) Known() int { return int(s.gates.known.count.Load()) }

// Drained reports that the loop has read all waiting datagrams.
func (g *Gate) Drained() {
	if g == nil {
		return
	}
	atomic.StoreInt64(&g.cell.drained, 1)
	if atomic.LoadInt64(&g.cell.room) > gateRoom {
		atomic.StoreInt64(&g.cell.room, gateRoom)
	}
}

// Drops returns the number of packets that the filters have dropped before the loop's sockets. The kernel counts these
// drops once more for each socket, after this count, together with drops for lack of room.
func (g *Gate) Drops() uint64 {
	if g == nil {
		return 0
	}
	return uint64(atomic.LoadInt64(&g.cell.drops))
}

// Know lets a client's datagrams to a port pass the Gate from now on. Beyond Options.Known clients, it has no effect.
func (g *Gate) Know(client netip.AddrPort, port uint16) {
	if g != nil {
		g.gates.known.add(client, port)
	}
}

// Forget reverses one Know.
func (g *Gate) Forget(client netip.AddrPort, port uint16) {
	if g != nil {
		g.gates.known.remove(client, port)
	}
}

// knownCode jumps to "known" if the source is known, unless the first byte is one of the openings.
func (g *gates) knownCode() asm.Instructions {
	code := append(firstCode(openingsAt), asm.JNE.Imm(asm.R3, 0, "stranger"))
	return append(append(code, g.known.code("known")...), asm.Mov.Imm(asm.R1, 0).WithSymbol("stranger"))
}

// socketCode passes a stranger's datagram while the loop has room, and takes the room.
func (g *gates) socketCode(offset uint32) asm.Instructions {
	code := append(g.knownCode(),
		asm.LoadMapValue(tables, g.cells.FD(), offset),
		asm.LoadMem(asm.R2, tables, roomAt, asm.DWord),
		asm.JSGT.Imm(asm.R2, 0, "room"),
		asm.FnKtimeGetNs.Call(),
	)
	code = append(code, refillCode(0, "refill")...)
	return append(code,
		asm.Mov.Imm(asm.R1, int32(StrangerLimit)),
		asm.Ja.Label("count"),
		asm.StoreMem(tables, filledAt, asm.R0, asm.DWord).WithSymbol("refill"),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(tables, drainedAt, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R2, gateRoom),
		asm.StoreMem(tables, roomAt, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("room"),
		asm.Sub.Reg(asm.R1, weight),
		asm.AddAtomic.Mem(tables, asm.R1, asm.DWord, roomAt),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("known"),
	)
}

// refillCode jumps to a label if the cell at an offset is due for a refill. R0 is the time.
func refillCode(offset int16, then string) asm.Instructions {
	not := "no " + then + fmt.Sprint(offset)
	return asm.Instructions{
		asm.LoadMem(asm.R2, tables, offset+filledAt, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Sub.Reg(asm.R3, asm.R2),
		asm.JSGE.Imm(asm.R3, int32(gatePatience), then),
		asm.JSLT.Imm(asm.R3, int32(gateEvery), not),
		asm.LoadMem(asm.R2, tables, offset+drainedAt, asm.DWord),
		asm.JNE.Imm(asm.R2, 0, then),
		asm.Mov.Imm(asm.R1, 0).WithSymbol(not),
	}
}

// dropCode counts a packet that is dropped before a loop's socket.
func (g *gates) dropCode(offset uint32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, g.cells.FD(), offset),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, dropsAt),
	}
}

// interfaceCode passes a stranger's datagram while any loop has room or is due for a refill. It takes no room: the
// receiving loop is not known yet, and its socket filter will take it.
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
		asm.Mov.Imm(asm.R1, int32(StrangerLimit)),
		asm.Ja.Label("count"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("known"),
	)
}
