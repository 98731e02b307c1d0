package bench

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
)

// scenario is something to measure subjects by.
type scenario struct {
	Result        // what is known of it beforehand
	each   uint64 // how many of what figures are of go with each that comes back
	kinds  []kind
	server func() (server, error)
	load   func(to netip.AddrPort) (load, error)
}

// server is what subjects stand in front of.
type server interface {
	addr() netip.AddrPort
	stop()
}

// run measures all subjects in turn.
func (sc *scenario) run(o *Options) (*Result, error) {
	sc.Rate, sc.Rounds, sc.Machine = o.Rate, o.Rounds, machine()
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := sc.server()
	if err != nil {
		return nil, err
	}
	defer server.stop()
	var all []*measured
	defer func() {
		for _, m := range all {
			m.stop()
		}
	}()
	for _, k := range sc.kinds {
		m, err := sc.begin(o, k, server.addr(), dir)
		if err != nil {
			sc.miss(o, k, err)
			continue
		}
		all = append(all, m)
	}
	for i := range o.Rounds {
		for _, m := range all {
			o.tell("round %d of %d: %s", i+1, o.Rounds, m.name)
			if err := m.measure(o); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	for _, m := range all {
		if err := m.profile(o); err != nil {
			return nil, fmt.Errorf("profile of %s: %w", m.name, err)
		}
	}
	sc.conclude(all)
	return &sc.Result, nil
}

// miss notes that a subject cannot be measured.
func (sc *scenario) miss(o *Options, k kind, err error) {
	sc.Missing = append(sc.Missing, fmt.Sprintf("%s: %v", k.name, err))
	o.tell("%s: %v", k.name, err)
}

// begin starts a subject and gives it its sessions.
func (sc *scenario) begin(o *Options, k kind, server netip.AddrPort, dir string) (*measured, error) {
	if what := k.missing(); what != "" {
		return nil, fmt.Errorf("there is no %s on this machine", what)
	}
	o.tell("start %s", k.name)
	s, err := k.start(o, server, dir)
	if err != nil {
		return nil, err
	}
	m := &measured{subject: s}
	if err := sc.fill(m); err != nil {
		s.stop()
		return nil, err
	}
	return m, nil
}

// fill opens the sessions, and notes what they take.
func (sc *scenario) fill(m *measured) (err error) {
	if pid := m.pid(); pid != 0 {
		if err := pin(pid, runtime.NumCPU()-1); err != nil {
			return err
		}
		if m.idle, err = rssOf(pid); err != nil {
			return err
		}
	}
	if m.load, err = sc.load(m.addr); err != nil {
		return err
	}
	if err := m.load.greet(); err != nil {
		return err
	}
	if pid := m.pid(); pid != 0 {
		m.full, err = rssOf(pid)
	}
	return err
}

// asked are those of the other subjects that the options ask for.
func asked(o *Options, all []kind) (some []kind) {
	for _, k := range all {
		if slices.Contains(o.Vs, k.name) {
			some = append(some, k)
		}
	}
	return some
}
