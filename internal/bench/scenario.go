package bench

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"tidegate/internal/bench/process"
)

// scenario is something to measure subjects by.
type scenario struct {
	Result        // what is known of it beforehand
	each   uint64 // how many of what figures are of go with each that comes back
	kinds  []kind
	grown  []kind // those that are measured with Options.Grow clients
	server func() (server, error)
	load   func(to netip.AddrPort, clients int) (load, error)
}

// server is what subjects stand in front of.
type server interface {
	addr() netip.AddrPort
	stop()
}

// run measures all subjects in turn, round by round. Each round has a process of its own, with its sessions: nobody
// has to keep sessions alive while others are measured, and nobody's idle sessions take the others' time.
func (sc *scenario) run(o *Options) (*Result, error) {
	sc.Rate, sc.Rounds, sc.Machine = o.Rate, o.Rounds, process.Machine()
	server, err := sc.server()
	if err != nil {
		return nil, err
	}
	defer func() { server.stop() }()
	var all []*measured
	for _, k := range sc.kinds {
		all = append(all, &measured{kind: k, clients: o.Sessions})
	}
	for _, k := range sc.grown {
		all = append(all, &measured{kind: k, clients: o.Grow})
	}
	for i := range o.Rounds {
		for _, m := range all {
			if len(m.rounds) < i {
				continue // it could not be measured
			}
			o.tell("round %d of %d: %s", i+1, o.Rounds, m.name)
			err := sc.round(o, m, server.addr(), i == o.Rounds-1)
			if o.Context.Err() != nil {
				return nil, context.Cause(o.Context)
			}
			if err != nil {
				sc.miss(o, fmt.Sprintf("%s, from round %d on", m.name, i+1), err)
			}
		}
	}
	sc.conclude(all)
	return &sc.Result, nil
}

// round measures a subject once, and after the last time keeps its profile.
func (sc *scenario) round(o *Options, m *measured, server netip.AddrPort, last bool) error {
	s, err := sc.begin(o, m.kind, server, m.clients)
	if err != nil {
		return err
	}
	defer s.stop()
	m.ownProcess = s.PID() != 0 && !s.forks
	r, err := s.measure(o)
	if err != nil {
		return err
	}
	m.rounds = append(m.rounds, r)
	if last {
		err = s.profile(o)
	}
	return err
}

// miss notes that a subject cannot be measured.
func (sc *scenario) miss(o *Options, name string, err error) {
	sc.Missing = append(sc.Missing, fmt.Sprintf("%s: %v", name, err))
	o.tell("%s: %v", name, err)
}

// begin starts a subject and gives it the sessions of so many clients.
func (sc *scenario) begin(o *Options, k kind, server netip.AddrPort, clients int) (*subject, error) {
	if what := k.missing(); what != "" {
		return nil, fmt.Errorf("there is no %s on this machine", what)
	}
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return nil, err
	}
	s, err := k.start(o, server, dir)
	if err != nil {
		_ = os.RemoveAll(dir) // the error that matters is the one before
		return nil, err
	}
	s.dir = dir
	if err := sc.fill(o, s, clients); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// fill opens the sessions of so many clients, and notes what they take.
func (sc *scenario) fill(o *Options, s *subject, clients int) (err error) {
	if pid := s.PID(); pid != 0 {
		if err := process.Pin(pid, runtime.NumCPU()-1); err != nil {
			return err
		}
		if s.idle, err = process.RSS(pid); err != nil {
			return err
		}
	}
	if s.admin.IsValid() {
		if s.heap, err = heap(s.admin); err != nil {
			return err
		}
	}
	l, err := sc.load(s.Addr, clients)
	if err != nil {
		return err
	}
	s.load = l
	l.books().ctx = o.Context
	if err := l.greet(); err != nil {
		return s.fewer(err)
	}
	if pid := s.PID(); pid != 0 {
		s.full, err = process.RSS(pid)
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
