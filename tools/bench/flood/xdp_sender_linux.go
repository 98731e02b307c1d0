package flood

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

// xdpSender is the sender for a virtual cable. An XDP program makes frames and puts 16 at a time on the cable's ring,
// as a driver would. Each frame has its own source, and no offload joins frames. A frame costs a tenth of a raw
// socket's packet.
type xdpSender struct {
	program *ebpf.Program
	link    link.Link // while the program is attached, a run need not wait for all processors
	memory  *ebpf.Map // the program's memory
}

// newXDPSender returns a sender to the cable's near end. The caller is in the namespace of the far end, also when it
// uses the sender.
func newXDPSender(p *plan, near net.HardwareAddr) (_ sender, err error) {
	s := new(xdpSender)
	defer func() {
		if err != nil {
			_ = s.close() // closes the parts that exist
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
	if err := s.load(p, far.Attrs().Index, slices.Concat(near, far.Attrs().HardwareAddr, []byte{8, 0})); err != nil {
		return nil, err
	}
	// The interface lo of this namespace receives nothing.
	s.link, err = link.AttachXDP(link.XDPOptions{Program: s.program, Interface: lo.Attrs().Index,
		Flags: link.XDPGenericMode})
	return s, err
}

// load loads the program. It sends frames through a device; the frames begin with the Ethernet header ether.
func (s *xdpSender) load(p *plan, device int, ether []byte) error {
	var frames, clients [][]byte
	for i := range p.packets {
		frames = append(frames, p.frame(&p.packets[i], ether))
	}
	for _, c := range p.clients {
		clients = append(clients, append(c.Addr().AsSlice(), byte(c.Port()>>8), byte(c.Port()), 0, 0))
	}
	frameMap, err := newArray("frames", frames)
	if err != nil {
		return err
	}
	defer func() { _ = frameMap.Close() }() // the program holds it
	clientMap, err := newArray("clients", clients)
	if err != nil {
		return err
	}
	defer func() { _ = clientMap.Close() }()
	if s.memory, err = newArray("memory", [][]byte{make([]byte, memorySize)}); err != nil {
		return err
	}
	s.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tidegate_flood", Type: ebpf.XDP, License: "Dual MIT/GPL",
		Instructions: p.code(s.memory, frameMap, clientMap, device),
	})
	return err
}

func (s *xdpSender) run(stopping *atomic.Bool) (sent uint64, err error) {
	for err == nil && !stopping.Load() {
		err = s.runProgram()
	}
	var memory [memorySize]byte
	err = errors.Join(err, s.memory.Lookup(uint32(0), &memory))
	return binary.NativeEndian.Uint64(memory[memorySent:]), err
}

// liveFrames is BPF_F_TEST_XDP_LIVE_FRAMES: the kernel applies the verdicts of a test run to real frames.
const liveFrames = 1 << 1

// runProgram runs the program until a signal comes. Program.Run would start again after a signal.
func (s *xdpSender) runProgram() error {
	var packet [frameHeader]byte
	attributes := struct { // of BPF_PROG_RUN in linux/bpf.h
		program, verdict, sizeIn, sizeOut uint32
		in, out                           unsafe.Pointer
		repeat, duration, size2In, size2  uint32
		in2, out2                         unsafe.Pointer
		flags, core, batch, _             uint32
	}{
		program: uint32(s.program.FD()), sizeIn: frameHeader, in: unsafe.Pointer(&packet),
		repeat: math.MaxUint32, flags: liveFrames,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_RUN, uintptr(unsafe.Pointer(&attributes)),
		unsafe.Sizeof(attributes))
	if errno != 0 && errno != unix.EINTR {
		return os.NewSyscallError("bpf", errno)
	}
	return nil
}

func (s *xdpSender) close() (err error) {
	if s.link != nil {
		err = s.link.Close()
	}
	return errors.Join(err, s.program.Close(), s.memory.Close())
}

// frame returns a packet in the program's format: the frame's length, the sum for its IPv4 checksum without the source,
// and the frame.
func (p *plan) frame(one *packet, ether []byte) []byte {
	ip := make([]byte, headersSize)
	fillHeaders(ip, p.testbed.server, p.to[one.listener].Port(), len(one.payload))
	sum := uint32(0)
	for at := 0; at < 20; at += 2 {
		sum += uint32(binary.NativeEndian.Uint16(ip[at:]))
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(frameHeader+len(one.payload)))
	b = binary.NativeEndian.AppendUint32(b, sum)
	return slices.Concat(b, ether, ip, one.payload)
}

// newArray makes an array map. All values get the length of the longest, filled up with zeros.
func newArray(name string, values [][]byte) (*ebpf.Map, error) {
	size := 8
	for _, v := range values {
		size = max(size, len(v))
	}
	spec := ebpf.MapSpec{
		Name:       name,
		Type:       ebpf.Array,
		KeySize:    4,
		ValueSize:  uint32(size),
		MaxEntries: uint32(max(1, len(values))),
	}
	for i, v := range values {
		spec.Contents = append(spec.Contents, ebpf.MapKV{Key: uint32(i), Value: append(v, make([]byte, size-len(v))...)})
	}
	return ebpf.NewMap(&spec)
}
