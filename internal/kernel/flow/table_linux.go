package flow

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
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
