package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
	"tidegate/internal/kernel"
)

// A bucket is one cache line. A client's mark may be in either of two buckets. There are at least twice as many places
// as clients: in ten million tries, a free place was always found.
const (
	bucketPlaces = 8
	bucketBytes  = 8 * bucketPlaces
	spareFactor  = 2
	firstShift   = 4 // shift of the mark to the first bucket's number
	secondShift  = 36
)

// known is the set of known clients, as marks in memory that the programs share. Adding a client takes no system call.
// It is safe for concurrent use.
type known struct {
	table  *ebpf.Map // one value: all buckets
	memory []byte    // the mapped memory of table
	mask   uint64    // number of buckets minus one
	most   int64     // most clients
	seed   uint64    // of the marks; secret, so that no client can choose its mark
	count  atomic.Int64
}

func newKnown(most int) (k *known, err error) {
	buckets := 1 << bits.Len(uint(max(most, 1)*spareFactor-1)/bucketPlaces)
	k = &known{mask: uint64(buckets - 1), most: int64(max(most, 1)), seed: rand.Uint64()}
	k.table, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_known", Type: ebpf.Array, Flags: mapMapable,
		KeySize: 4, ValueSize: uint32(buckets * bucketBytes), MaxEntries: 1,
	})
	if err == nil {
		k.memory, err = unix.Mmap(k.table.FD(), 0, buckets*bucketBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = k.close() // close the parts that exist
		return nil, fmt.Errorf("map of known sources: %w", err)
	}
	return k, nil
}

func (k *known) close() error {
	err := k.table.Close()
	if k.memory != nil {
		err = errors.Join(err, unix.Munmap(k.memory))
		k.memory = nil
	}
	return err
}

// add adds a client of a listener's port, if there is room.
func (k *known) add(client netip.AddrPort, port uint16) {
	if k.count.Add(1) <= k.most && k.place(k.mark(client, port)) {
		return
	}
	k.count.Add(-1)
}

// place puts a mark into the emptier one of its buckets, and reports whether there was room.
func (k *known) place(mark uint64) bool {
	emptier, other := k.buckets(mark)
	if free(other) > free(emptier) {
		emptier, other = other, emptier
	}
	return exchange(emptier, 0, mark) || exchange(other, 0, mark)
}

// remove removes a client, if it is there.
func (k *known) remove(client netip.AddrPort, port uint16) {
	mark := k.mark(client, port)
	if first, second := k.buckets(mark); exchange(first, mark, 0) || exchange(second, mark, 0) {
		k.count.Add(-1)
	}
}

// bucket has places for marks; 0 means free.
type bucket [bucketPlaces]atomic.Uint64

func (k *known) buckets(mark uint64) (first, second *bucket) {
	at := func(i uint64) *bucket { return (*bucket)(unsafe.Pointer(&k.memory[i*bucketBytes])) }
	return at(mark >> firstShift & k.mask), at(mark >> secondShift & k.mask)
}

func free(b *bucket) (places int) {
	for i := range b {
		if b[i].Load() == 0 {
			places++
		}
	}
	return places
}

// exchange replaces one value in a bucket, and reports whether it was there.
func exchange(b *bucket, value, by uint64) bool {
	for i := range b {
		if b[i].CompareAndSwap(value, by) {
			return true
		}
	}
	return false
}

// mark identifies a client at a listener's port: the source's address, IPv4-mapped, and both ports in network order,
// mixed with the seed. It equals markCode's result and is never 0.
func (k *known) mark(client netip.AddrPort, port uint16) uint64 {
	var ports [4]byte
	binary.BigEndian.PutUint16(ports[:], client.Port())
	binary.BigEndian.PutUint16(ports[2:], port)
	addr := client.Addr().As16()
	mark := k.seed
	for _, word := range [...]uint64{
		binary.NativeEndian.Uint64(addr[:]), binary.NativeEndian.Uint64(addr[8:]),
		uint64(binary.NativeEndian.Uint32(ports[:])),
	} {
		mark ^= word
		mark ^= mark >> 32
		mark *= 1<<64 + mixer
		mark ^= mark >> 32
	}
	return mark | 1
}

// markCode computes the source's mark into R1, from its address and ports on the stack.
func (k *known) markCode() asm.Instructions {
	code := asm.Instructions{asm.LoadImm(asm.R1, int64(k.seed), asm.DWord), asm.LoadImm(asm.R2, mixer, asm.DWord)}
	for _, word := range [...]struct {
		at   int16
		size asm.Size
	}{{addrAt, asm.DWord}, {addrAt + 8, asm.DWord}, {portsAt, asm.Word}} {
		code = append(code,
			asm.LoadMem(asm.R3, asm.RFP, word.at, word.size),
			asm.Xor.Reg(asm.R1, asm.R3),
			asm.Mov.Reg(asm.R3, asm.R1),
			asm.RSh.Imm(asm.R3, 32),
			asm.Xor.Reg(asm.R1, asm.R3),
			asm.Mul.Reg(asm.R1, asm.R2),
			asm.Mov.Reg(asm.R3, asm.R1),
			asm.RSh.Imm(asm.R3, 32),
			asm.Xor.Reg(asm.R1, asm.R3),
		)
	}
	return append(code, asm.Or.Imm(asm.R1, 1))
}

// code jumps to a label if the source is known.
func (k *known) code(label string) asm.Instructions {
	code := k.markCode()
	for _, shift := range [...]int32{firstShift, secondShift} {
		code = append(code,
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.RSh.Imm(asm.R2, shift),
			asm.And.Imm(asm.R2, int32(k.mask)),
			asm.Mul.Imm(asm.R2, bucketBytes),
			asm.LoadMapValue(asm.R3, k.table.FD(), 0),
			asm.Add.Reg(asm.R3, asm.R2),
		)
		for place := range int16(bucketPlaces) {
			code = append(code, asm.LoadMem(asm.R2, asm.R3, 8*place, asm.DWord), asm.JEq.Reg(asm.R2, asm.R1, label))
		}
	}
	return code
}

// license of the programs, which the kernel requires.
const license = "Dual MIT/GPL"

// Shield is the state that the programs of sockets and interfaces share. It is safe for concurrent use.
type Shield struct {
	options Options
	bans    bans
	gates   *gates
	sockets meter

	mu         sync.Mutex
	programs   map[socketKey]*ebpf.Program // of sockets
	banned     map[netip.Prefix]struct{}   // the content of bans
	interfaces map[string]*guarded
	retired    Tally // counts of interfaces that are no longer guarded
}

// New creates a Shield that guards nothing yet. The error is a kernel.Unavailable.
func New(o Options) (*Shield, error) {
	// Before Linux 5.11, maps count as locked memory. If the limit cannot be raised, creating them fails.
	_ = rlimit.RemoveMemlock()
	s := &Shield{
		options: o, programs: make(map[socketKey]*ebpf.Program), banned: make(map[netip.Prefix]struct{}),
		interfaces: make(map[string]*guarded),
	}
	var err error
	if s.bans, err = newBans(o.Bans); err == nil {
		s.gates, err = newGates(&o)
	}
	if err == nil {
		if s.sockets, err = newMeter(&o); err != nil {
			_ = s.gates.close() // the earlier error matters more
		}
	}
	if err != nil {
		_ = s.bans.close() // close the parts that exist
		return nil, &kernel.Unavailable{What: "eBPF", Err: err}
	}
	return s, nil
}

// Counters returns the totals so far.
func (s *Shield) Counters() (Counters, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counters{Interfaces: s.retired}
	if err := s.sockets.addTo(&c.Sockets); err != nil {
		return Counters{}, err
	}
	for _, g := range s.interfaces {
		if err := g.meter.addTo(&c.Interfaces); err != nil {
			return Counters{}, err
		}
	}
	return c, nil
}

// Close detaches the programs from the interfaces. The programs of sockets end with their sockets, and keep their bans.
func (s *Shield) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.closePrograms()}
	for name, g := range s.interfaces {
		errs = append(errs, g.close())
		delete(s.interfaces, name)
	}
	return errors.Join(append(errs, s.sockets.close(), s.gates.close(), s.bans.close())...)
}

// meter has the maps of one hook. Each hook has its own, since a datagram that passes two hooks was sent once.
type meter struct {
	rates *ebpf.Map // theoretical arrival time of a source's next datagram, in ns of the monotonic clock
	tally *ebpf.Map // datagrams by Reason, for each processor
	seed  uint64    // for the hash of sources to places in rates
	bits  int       // width of a place's number, in bits
}

func newMeter(o *Options) (m meter, err error) {
	m.seed, m.bits = rand.Uint64(), bits.Len(uint(max(o.Sources, 2)-1))
	m.rates, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_rates", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1 << m.bits,
	})
	if err != nil {
		return meter{}, fmt.Errorf("map of rates: %w", err)
	}
	m.tally, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_tally", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(reasons),
	})
	if err != nil {
		_ = m.close()
		return meter{}, fmt.Errorf("map of counters: %w", err)
	}
	return m, nil
}

func (m *meter) addTo(t *Tally) error {
	for reason := range t {
		var perCPU []uint64
		if err := m.tally.Lookup(uint32(reason), &perCPU); err != nil {
			return fmt.Errorf("read counter %s: %w", Reason(reason), err)
		}
		for _, n := range perCPU {
			t[reason] += n
		}
	}
	return nil
}

func (m *meter) close() error { return errors.Join(m.rates.Close(), m.tally.Close()) }
