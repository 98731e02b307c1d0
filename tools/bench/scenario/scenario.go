package scenario

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"tidegate/tools/bench/process"
)

// scenario is a way to measure subjects.
type scenario struct {
	Result             // the parts that are known before measuring
	each        uint64 // items for each returned datagram, message or session
	kinds       []kind
	largerKinds []kind // kinds that are measured with Options.Grow clients
	overDirect  bool   // the delays of subjects are compared with direct's
	server      func() (server, error)
	load        func(to netip.AddrPort, clients int) (load, error)
}

// server is the game server behind the subjects.
type server interface {
	addr() netip.AddrPort
	stop()
}

// run measures all subjects in turn, round by round. Each round starts a new process with new sessions. So no session
// has to be kept alive while other subjects are measured, and idle sessions take no time from others.
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
	for _, k := range sc.largerKinds {
		all = append(all, &measured{kind: k, clients: o.Grow})
	}
	for i := range o.Rounds {
		for _, m := range all {
			if len(m.rounds) < i {
				continue // it failed in an earlier round
			}
			o.progress("round %d of %d: %s", i+1, o.Rounds, m.name)
			err := sc.round(o, m, server.addr(), i == o.Rounds-1)
			if o.Context.Err() != nil {
				return nil, context.Cause(o.Context)
			}
			if err != nil {
				sc.addMissing(o, fmt.Sprintf("%s, from round %d on", m.name, i+1), err)
			}
		}
	}
	sc.conclude(all)
	return &sc.Result, nil
}

// round measures a subject once. After the last round it writes the profile.
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

// addMissing records that a subject cannot be measured.
func (sc *scenario) addMissing(o *Options, name string, err error) {
	sc.Missing = append(sc.Missing, fmt.Sprintf("%s: %v", name, err))
	o.progress("%s: %v", name, err)
}

// begin starts a subject and opens the sessions of a number of clients.
func (sc *scenario) begin(o *Options, k kind, server netip.AddrPort, clients int) (*subject, error) {
	if what := k.missing(); what != "" {
		return nil, fmt.Errorf("%s is not installed", what)
	}
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return nil, err
	}
	s, err := k.start(o, server, dir)
	if err != nil {
		_ = os.RemoveAll(dir) // the earlier error matters more
		return nil, err
	}
	s.dir = dir
	if err := sc.openSessions(o, s, clients); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// openSessions opens the sessions of a number of clients, and records the subject's memory before and after.
func (sc *scenario) openSessions(o *Options, s *subject, clients int) (err error) {
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
	l.stats().ctx = o.Context
	if err := l.open(); err != nil {
		return s.explain(err)
	}
	if pid := s.PID(); pid != 0 {
		s.full, err = process.RSS(pid)
	}
	return err
}

// requested returns the subjects that the options name.
func requested(o *Options, all []kind) (some []kind) {
	for _, k := range all {
		if slices.Contains(o.Vs, k.name) {
			some = append(some, k)
		}
	}
	return some
}
