package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"tidegate/internal/kernel"
)

// Table holds the flows of one network namespace: the namespace of the thread that calls New. Calls of Add must come
// from the same namespace. A Table is safe for concurrent use.
type Table struct {
	flows   *ebpf.Map // entry by key, two per flow
	bitmap  *bitmap   // of the keys of flows
	totals  *ebpf.Map // Count by direction, for each processor
	program *ebpf.Program
	routes  *routes

	changes atomic.Uint64

	mu       sync.Mutex
	attached map[int]link.Link // by interface
}

// New creates an empty Table. The error is a kernel.Unavailable.
func New(o Options) (*Table, error) {
	// Before Linux 5.11, maps count as locked memory. If the limit cannot be raised, creating them fails.
	_ = rlimit.RemoveMemlock()
	t := &Table{attached: make(map[int]link.Link)}
	if err := t.open(max(o.Flows, 1)); err != nil {
		_ = t.Close()
		return nil, &kernel.Unavailable{What: "forwarding in the kernel", Err: err}
	}
	return t, nil
}

func (t *Table) open(flows int) (err error) {
	t.flows, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_flows", Type: ebpf.Hash,
		KeySize: uint32(unsafe.Sizeof(key{})), ValueSize: uint32(unsafe.Sizeof(entry{})),
		MaxEntries: uint32(2 * flows), Flags: unix.BPF_F_NO_PREALLOC,
	})
	if err != nil {
		return fmt.Errorf("map of flows: %w", err)
	}
	t.totals, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_totals", Type: ebpf.PerCPUArray,
		KeySize: 4, ValueSize: uint32(unsafe.Sizeof(Count{})), MaxEntries: directions,
	})
	if err != nil {
		return fmt.Errorf("map of counters: %w", err)
	}
	if t.bitmap, err = newBitmap(2 * flows); err != nil {
		return err
	}
	if t.program, err = newProgram(t.bitmap, t.flows, t.totals); err != nil {
		return err
	}
	t.routes, err = newRoutes(t.forget)
	return err
}

// Add forwards a flow from now on, in place of a flow between the same addresses. It returns a kernel.Unavailable if
// there is no route, or ErrFull if there is no room.
func (t *Table) Add(f Flow, r Rate) error {
	if err := f.valid(); err != nil {
		return err
	}
	for {
		events := t.routes.events.Load()
		if err := t.add(&f, r); err != nil {
			t.Delete(f) // from the earlier iteration
			return err
		}
		if t.routes.events.Load() == events {
			return nil
		}
		// A change during Add may have missed this flow.
	}
}

func (t *Table) add(f *Flow, r Rate) error {
	toServer, err := t.routes.find(f.Source.Addr(), f.Server.Addr())
	if err != nil {
		return &kernel.Unavailable{What: "route to the server", Err: err}
	}
	toClient, err := t.routes.find(f.Listener.Addr(), f.Client.Addr())
	if err != nil {
		return &kernel.Unavailable{What: "route to the client", Err: err}
	}
	for _, h := range []hop{toServer, toClient} {
		if err := t.attach(h.device); err != nil {
			return &kernel.Unavailable{What: fmt.Sprintf("forwarding on interface %d", h.device), Err: err}
		}
	}
	forth := newEntry(f.Client, f.Listener, f.Source, f.Server)
	forth.limit(r)
	back := newEntry(f.Server, f.Source, f.Listener, f.Client)
	forth.Direction, back.Direction = fromClient, fromServer
	forth.leave(toServer)
	back.leave(toClient)
	forth.Seen, back.Seen = monotonic(), monotonic()
	if r.Records {
		forth.Records, back.Records = 1, 1
	}
	// The direction back comes first, so that the server's answer never arrives before its entry.
	if err := t.put(newKey(f.Server, f.Source), &back); err != nil {
		return err
	}
	if err := t.put(newKey(f.Client, f.Listener), &forth); err != nil {
		t.remove(newKey(f.Server, f.Source))
		return err
	}
	return nil
}

func (e *entry) leave(h hop) {
	e.Out = uint32(h.device)
	if h.loopback {
		e.InPlace = e.Out
	}
}

func (t *Table) put(k key, e *entry) error {
	t.bitmap.add(&k) // first, so that no packet is overlooked
	err := t.flows.Update(&k, e, ebpf.UpdateNoExist)
	if err == nil {
		return nil
	}
	t.bitmap.remove(&k)
	if errors.Is(err, ebpf.ErrKeyExist) {
		err = t.flows.Update(&k, e, ebpf.UpdateExist)
	}
	if errors.Is(err, syscall.E2BIG) {
		return ErrFull
	}
	return err
}

// remove deletes a key and reports whether it existed.
func (t *Table) remove(k key) bool {
	if t.flows.Delete(&k) != nil {
		return false
	}
	t.bitmap.remove(&k)
	return true
}

// take is remove that also returns the entry.
func (t *Table) take(k key) (e entry, ok bool) {
	if ok = t.flows.LookupAndDelete(&k, &e) == nil; ok {
		t.bitmap.remove(&k)
	}
	return e, ok
}

// Delete ends the forwarding of a flow at once, and returns its traffic. ok is false if there is no such flow.
func (t *Table) Delete(f Flow) (last Traffic, ok bool) {
	forth, there := t.take(newKey(f.Client, f.Listener))
	back, and := t.take(newKey(f.Server, f.Source))
	return Traffic{forth.count(), back.count()}, there || and
}

// Usage returns a flow's usage. ok is false if there is no such flow, or if its route changed.
func (t *Table) Usage(f Flow) (u Usage, ok bool) {
	var forth, back entry
	up, down := newKey(f.Client, f.Listener), newKey(f.Server, f.Source)
	if t.flows.Lookup(&up, &forth) != nil || t.flows.Lookup(&down, &back) != nil {
		return Usage{}, false
	}
	now := monotonic()
	return Usage{Traffic{forth.count(), back.count()}, since(now, forth.Seen), since(now, back.Seen)}, true
}

// since returns the time from then to now. Another processor may have read its clock a little later than now.
func since(now, then uint64) time.Duration { return max(0, time.Duration(now-then)) }

// Totals returns the traffic of all flows, ended ones included.
func (t *Table) Totals() (all Traffic, err error) {
	t.mu.Lock() // an answer of the admin server may take longer than the Table
	defer t.mu.Unlock()
	for direction, sum := range []*Count{fromClient: &all.FromClient, fromServer: &all.FromServer} {
		var perCPU []Count
		if err := t.totals.Lookup(uint32(direction), &perCPU); err != nil {
			return Traffic{}, fmt.Errorf("read totals: %w", err)
		}
		for _, c := range perCPU {
			sum.Packets += c.Packets
			sum.Bytes += c.Bytes
			sum.Dropped += c.Dropped
		}
	}
	return all, nil
}

// Changes counts the deletions of flows after route changes. When it has grown, callers may add a flow again if its
// datagrams reach the sockets.
func (t *Table) Changes() uint64 { return t.changes.Load() }

// Close ends the forwarding of all flows.
func (t *Table) Close() error {
	if t.routes != nil {
		t.routes.close() // before taking the lock, since a change in progress may need it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for device, l := range t.attached {
		errs = append(errs, l.Close())
		delete(t.attached, device)
	}
	if t.bitmap != nil {
		errs = append(errs, t.bitmap.close())
	}
	return errors.Join(append(errs, t.program.Close(), t.flows.Close(), t.totals.Close())...)
}

// monotonic returns the clock of the programs, in ns.
func monotonic() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // never fails
	return uint64(now.Nano())
}

// attach puts the program on an interface, unless it is there.
func (t *Table) attach(device int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attached[device] != nil {
		return nil
	}
	found, err := netlink.LinkByIndex(device)
	if err != nil {
		return err
	}
	if kind := found.Attrs().EncapType; kind != "ether" && kind != "loopback" {
		return fmt.Errorf("%s has no Ethernet headers (%s)", found.Attrs().Name, kind)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: device, Program: t.program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return err
	}
	t.attached[device] = l
	return nil
}

// forget deletes the flows that a network change affects, and detaches the program from a removed interface.
func (t *Table) forget(c change) {
	if c.gone {
		t.detach(c.device)
	}
	deleted := false
	for _, k := range t.affected(&c) {
		deleted = t.remove(k) || deleted
	}
	if deleted {
		t.changes.Add(1)
	}
}

// batchSize is the number of entries per system call: more than ever share a bucket of the map.
const batchSize = 1024

// affected returns the keys of the entries that a change affects.
func (t *Table) affected(c *change) (found []key) {
	keys, entries := make([]key, batchSize), make([]entry, batchSize)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := t.flows.BatchLookup(&cursor, keys, entries, nil)
		for i := range n {
			if c.affects(&keys[i], &entries[i]) {
				found = append(found, keys[i])
			}
		}
		if err != nil { // ebpf.ErrKeyNotExist: the last batch
			return found
		}
	}
}

func (t *Table) detach(device int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.attached[device]; l != nil {
		_ = l.Close()
		delete(t.attached, device)
	}
}

// bitmap rejects most packets without a flow at the first look. It stays in the processor's caches; the map of flows
// does not. In a flood of strangers, a lookup in the map costs 0.15 µs, of 2.5 µs to read and refuse a datagram.
type bitmap struct {
	words *ebpf.Map // 64 bits each; a set bit: there may be a flow
	seed  uint64    // secret, so that strangers cannot choose their bits
	width int       // width of a bit index, in bits

	mu     sync.Mutex
	memory *ebpf.Memory // the mapped memory of words
	users  []uint16     // by bit: the number of keys in the map of flows
}

// Least bits per key, so that few strangers share a client's bit. And least bits in all.
const (
	bitsEach  = 4
	leastBits = 1 << 13
)

func newBitmap(keys int) (*bitmap, error) {
	width := bits.Len(uint(max(bitsEach*keys, leastBits) - 1))
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_bitmap", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1 << (width - 6),
		Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, fmt.Errorf("bitmap: %w", err)
	}
	memory, err := m.Memory()
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("bitmap: %w", err)
	}
	return &bitmap{words: m, seed: rand.Uint64(), width: width, memory: memory, users: make([]uint16, 1<<width)}, nil
}

// The methods add and remove count a key up and down.
func (b *bitmap) add(k *key)    { b.count(k, 1) }
func (b *bitmap) remove(k *key) { b.count(k, ^uint16(0)) }

func (b *bitmap) count(k *key, n uint16) {
	at := b.index(k)
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.users[at]
	b.users[at] += n
	if (before == 0) == (b.users[at] == 0) {
		return
	}
	var word [8]byte
	where := int64(at / 64 * 8)
	_, _ = b.memory.ReadAt(word[:], where) // within bounds
	binary.NativeEndian.PutUint64(word[:], binary.NativeEndian.Uint64(word[:])^1<<(at%64))
	_, _ = b.memory.WriteAt(word[:], where)
}

// multiplier is 2^64 divided by the golden ratio (Fibonacci hashing).
const multiplier = 0x9e3779b97f4a7c15

// index returns the bit of a key, from the lower halves of its addresses and its ports.
func (b *bitmap) index(k *key) uint64 {
	h := b.seed
	for _, part := range [...]uint64{
		binary.NativeEndian.Uint64(k.From[8:]), binary.NativeEndian.Uint64(k.To[8:]),
		uint64(binary.NativeEndian.Uint32(k.Ports[:])),
	} {
		h = (h ^ part) * multiplier
		h ^= h >> 32
	}
	return h & (1<<b.width - 1)
}

// maybe continues if the bitmap has the key on the stack. It computes the same index as index.
func (b *bitmap) maybe() asm.Instructions {
	code := asm.Instructions{
		asm.LoadImm(asm.R1, int64(b.seed), asm.DWord).WithSymbol("find"),
		asm.LoadImm(asm.R2, multiplier-1<<64, asm.DWord),
	}
	for _, part := range []asm.Instruction{
		asm.LoadMem(asm.R3, asm.RFP, keyAt+8, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, keyAt+24, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, keyAt+32, asm.Word),
	} {
		code = append(code, part,
			asm.Xor.Reg(asm.R1, asm.R3),
			asm.Mul.Reg(asm.R1, asm.R2),
			asm.Mov.Reg(asm.R3, asm.R1),
			asm.RSh.Imm(asm.R3, 32),
			asm.Xor.Reg(asm.R1, asm.R3),
		)
	}
	return append(code,
		asm.And.Imm(asm.R1, 1<<b.width-1),
		asm.Mov.Reg(now, asm.R1), // R8 is free until a flow is found
		asm.RSh.Imm(asm.R1, 6),
		asm.StoreMem(asm.RFP, wordAt, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, b.words.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, wordAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.And.Imm(now, 63),
		asm.RSh.Reg(asm.R1, now),
		asm.And.Imm(asm.R1, 1),
		asm.JEq.Imm(asm.R1, 0, "next"),
	)
}

func (b *bitmap) close() error { return b.words.Close() }
