package shield

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"tidegate/internal/kernel"
)

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
