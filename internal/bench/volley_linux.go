package bench

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// volley is the gun on a cable. A program of the kernel's makes frames and lays them on the cable's ring, 16 at once, as a driver
// would: each has a source of its own, and nobody has joined them. That takes a tenth of what a socket for whole packets would.
type volley struct {
	program *ebpf.Program
	held    link.Link // keeps the program at hand: else to run it waits until all processors know it
	memory  *ebpf.Map // of the program
}

// newVolley aims at the cable's near end. It is to be called, and its result used, in the namespace of the far end.
func newVolley(f *flood, near net.HardwareAddr) (_ gun, err error) {
	v := new(volley)
	defer func() {
		if err != nil {
			_ = v.close() // what there is of it
		}
	}()
	far, err := netlink.LinkByName(farDevice)
	if err != nil {
		return nil, err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	if err := v.load(f, far.Attrs().Index, slices.Concat(near, far.Attrs().HardwareAddr, []byte{8, 0})); err != nil {
		return nil, err
	}
	// Nothing is received there.
	v.held, err = link.AttachXDP(link.XDPOptions{Program: v.program, Interface: lo.Attrs().Index, Flags: link.XDPGenericMode})
	return v, err
}

// load makes the program. The frames that it sends by a device begin with ether.
func (v *volley) load(f *flood, device int, ether []byte) error {
	var rounds, players [][]byte
	for i := range f.shots {
		rounds = append(rounds, f.round(&f.shots[i], ether))
	}
	for _, p := range f.players {
		players = append(players, append(p.Addr().AsSlice(), byte(p.Port()>>8), byte(p.Port()), 0, 0))
	}
	shotMap, err := arrayOf("shots", rounds)
	if err != nil {
		return err
	}
	defer func() { _ = shotMap.Close() }() // the program holds it
	playerMap, err := arrayOf("players", players)
	if err != nil {
		return err
	}
	defer func() { _ = playerMap.Close() }()
	if v.memory, err = arrayOf("memory", [][]byte{make([]byte, memorySize)}); err != nil {
		return err
	}
	v.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tidegate_flood", Type: ebpf.XDP, License: "Dual MIT/GPL",
		Instructions: f.code(v.memory, shotMap, playerMap, device),
	})
	return err
}

func (v *volley) run(stopping *atomic.Bool) (sent uint64, err error) {
	for err == nil && !stopping.Load() {
		err = v.fire()
	}
	var memory [memorySize]byte
	err = errors.Join(err, v.memory.Lookup(uint32(0), &memory))
	return binary.NativeEndian.Uint64(memory[memorySent:]), err
}

// liveFrames is BPF_F_TEST_XDP_LIVE_FRAMES: what an XDP program says of the packets it is tried with is done to them.
const liveFrames = 1 << 1

// fire runs the program until a signal comes. Program.Run would begin anew then.
func (v *volley) fire() error {
	var packet [frameHeader]byte
	attributes := struct { // of BPF_PROG_RUN in linux/bpf.h
		program, verdict, sizeIn, sizeOut uint32
		in, out                           unsafe.Pointer
		repeat, duration, size2In, size2  uint32
		in2, out2                         unsafe.Pointer
		flags, core, batch, _             uint32
	}{program: uint32(v.program.FD()), sizeIn: frameHeader, in: unsafe.Pointer(&packet), repeat: math.MaxUint32, flags: liveFrames}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_RUN, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes))
	if errno != 0 && errno != unix.EINTR {
		return os.NewSyscallError("bpf", errno)
	}
	return nil
}

func (v *volley) close() (err error) {
	if v.held != nil {
		err = v.held.Close()
	}
	return errors.Join(err, v.program.Close(), v.memory.Close())
}

// round is a shot as the program loads it: the frame's length, the sum of what its checksum is of but for the source, and the
// frame.
func (f *flood) round(s *shot, ether []byte) []byte {
	ip := make([]byte, headersSize)
	fillHeaders(ip, f.arena.server, f.to[s.door].Port(), len(s.payload))
	sum := uint32(0)
	for at := 0; at < 20; at += 2 {
		sum += uint32(binary.NativeEndian.Uint16(ip[at:]))
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(frameHeader+len(s.payload)))
	b = binary.NativeEndian.AppendUint32(b, sum)
	return slices.Concat(b, ether, ip, s.payload)
}

// arrayOf is a map of values by their number, each followed by zeros up to the length of the longest.
func arrayOf(name string, values [][]byte) (*ebpf.Map, error) {
	size := 8
	for _, v := range values {
		size = max(size, len(v))
	}
	spec := ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: uint32(max(1, len(values)))}
	for i, v := range values {
		spec.Contents = append(spec.Contents, ebpf.MapKV{Key: uint32(i), Value: append(v, make([]byte, size-len(v))...)})
	}
	return ebpf.NewMap(&spec)
}
