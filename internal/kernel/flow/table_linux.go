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

// Table is the flows of a network namespace: that of the thread that calls New, as must be those that call Add. It is
// safe for concurrent use.
type Table struct {
	flows   *ebpf.Map // entry by key, two a flow
	bitmap  *bitmap   // of the keys of flows
	totals  *ebpf.Map // Count by way, for each processor
	program *ebpf.Program
	routes  *routes

	changes atomic.Uint64

	mu       sync.Mutex
	attached map[int]link.Link // by interface
}

// New makes a Table without flows. The error is a kernel.Unavailable.
func New(o Options) (*Table, error) {
	_ = rlimit.RemoveMemlock() // maps count as locked memory before Linux 5.11; where that cannot be raised, they tell
	t := &Table{attached: make(map[int]link.Link)}
	if err := t.open(max(o.Flows, 1)); err != nil {
		_ = t.Close()
		return nil, &kernel.Unavailable{What: "forwarding in the kernel", Err: err}
	}
	return t, nil
}

func (t *Table) open(flows int) (err error) {
	t.flows, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_flows", Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(key{})), ValueSize: uint32(unsafe.Sizeof(entry{})),
		MaxEntries: uint32(2 * flows), Flags: unix.BPF_F_NO_PREALLOC,
	})
	if err != nil {
		return fmt.Errorf("map of flows: %w", err)
	}
	t.totals, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tidegate_totals", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(Count{})), MaxEntries: ways,
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

// Add forwards a flow from now on, in place of one between the same addresses. A kernel.Unavailable tells that it has
// no way; more than that there may be no room.
func (t *Table) Add(f Flow, r Rate) error {
	if err := f.valid(); err != nil {
		return err
	}
	for {
		heard := t.routes.heard.Load()
		if err := t.add(&f, r); err != nil {
			t.Delete(f) // of the last round
			return err
		}
		if t.routes.heard.Load() == heard {
			return nil
		}
		// Something has changed meanwhile, and this flow may have been overlooked when it did.
	}
}

func (t *Table) add(f *Flow, r Rate) error {
	toServer, err := t.routes.find(f.Source.Addr(), f.Server.Addr())
	if err != nil {
		return &kernel.Unavailable{What: "way to the server", Err: err}
	}
	toClient, err := t.routes.find(f.Listener.Addr(), f.Client.Addr())
	if err != nil {
		return &kernel.Unavailable{What: "way to the client", Err: err}
	}
	for _, w := range []way{toServer, toClient} {
		if err := t.attach(w.device); err != nil {
			return &kernel.Unavailable{What: fmt.Sprintf("forwarding on interface %d", w.device), Err: err}
		}
	}
	forth := newEntry(f.Client, f.Listener, f.Source, f.Server)
	forth.limit(r)
	back := newEntry(f.Server, f.Source, f.Listener, f.Client)
	forth.Way, back.Way = fromClient, fromServer
	forth.leave(toServer)
	back.leave(toClient)
	forth.Seen, back.Seen = monotonic(), monotonic()
	// The way back first: the server's answer to what the client sends is then never late for it.
	if err := t.put(newKey(f.Server, f.Source), &back); err != nil {
		return err
	}
	if err := t.put(newKey(f.Client, f.Listener), &forth); err != nil {
		t.remove(newKey(f.Server, f.Source))
		return err
	}
	return nil
}

func (e *entry) leave(w way) {
	e.Out = uint32(w.device)
	if w.loopback {
		e.InPlace = e.Out
	}
}

func (t *Table) put(k key, e *entry) error {
	t.bitmap.add(&k) // first: what comes then is not overlooked
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

// remove reports whether there was such a key.
func (t *Table) remove(k key) bool {
	if t.flows.Delete(&k) != nil {
		return false
	}
	t.bitmap.remove(&k)
	return true
}

// take is remove for those who want to know what there was.
func (t *Table) take(k key) (e entry, ok bool) {
	if ok = t.flows.LookupAndDelete(&k, &e) == nil; ok {
		t.bitmap.remove(&k)
	}
	return e, ok
}

// Delete ends the forwarding of a flow at once, and returns what was forwarded; ok is false if there is no such flow.
func (t *Table) Delete(f Flow) (last Traffic, ok bool) {
	forth, there := t.take(newKey(f.Client, f.Listener))
	back, and := t.take(newKey(f.Server, f.Source))
	return Traffic{forth.count(), back.count()}, there || and
}

// Usage tells how a flow has been used; ok is false if there is no such flow, or no longer, as its way has changed.
func (t *Table) Usage(f Flow) (u Usage, ok bool) {
	var forth, back entry
	up, down := newKey(f.Client, f.Listener), newKey(f.Server, f.Source)
	if t.flows.Lookup(&up, &forth) != nil || t.flows.Lookup(&down, &back) != nil {
		return Usage{}, false
	}
	now := monotonic()
	return Usage{Traffic{forth.count(), back.count()}, since(now, forth.Seen), since(now, back.Seen)}, true
}

// since is the time from then to now, which may be a little earlier, as another processor has looked at the clock.
func since(now, then uint64) time.Duration { return max(0, time.Duration(now-then)) }

// Totals are what all flows have forwarded, those that have ended included.
func (t *Table) Totals() (all Traffic, err error) {
	for way, sum := range []*Count{fromClient: &all.FromClient, fromServer: &all.FromServer} {
		var perCPU []Count
		if err := t.totals.Lookup(uint32(way), &perCPU); err != nil {
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

// Changes counts how often flows were deleted since their ways had changed. Whoever finds that it has grown may add
// again a flow whose datagrams come to the sockets.
func (t *Table) Changes() uint64 { return t.changes.Load() }

// Close ends the forwarding of all flows.
func (t *Table) Close() error {
	if t.routes != nil {
		t.routes.close() // before the lock, which a change that is being looked at may need
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

// monotonic is the clock of the programs, in ns.
func monotonic() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // never fails
	return uint64(now.Nano())
}
