package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"

	"tidegate/tools/bench/process"
)

// Idle is the result of Sessions.
type Idle struct {
	Sessions int         `json:"sessions"`
	From     string      `json:"from,omitempty"` // protocol of the clients; empty: sessions are relayed
	To       string      `json:"to,omitempty"`
	Rounds   int         `json:"rounds"`
	Machine  string      `json:"machine"`
	Subjects []IdleCosts `json:"subjects"`
	Missing  []string    `json:"missing,omitempty"`
}

// IdleCosts are medians over all rounds. Each round has its own process.
type IdleCosts struct {
	Name string `json:"name"`
	// Resident is the resident memory of the process for each session, in bytes, with garbage. Kernel is the memory of
	// the kernel's slabs and page tables of all processes for each session; clients and server have only a few sockets.
	Resident float64 `json:"resident_bytes"`
	Kernel   float64 `json:"kernel_bytes"`
	Heap     float64 `json:"heap_bytes"` // part of Resident that is in use; 0: unknown
	Core     float64 `json:"core_share"` // share of a core for all sessions together
	// Scrapes without sessions and, in the last round, with all of them; nil without metrics.
	ScrapeEmpty *Scrape `json:"scrape_empty,omitempty"`
	Scrape      *Scrape `json:"scrape,omitempty"`
}

// Sessions measures the costs of idle sessions, in which only the protocol itself sends datagrams.
func Sessions(o *Options) (*Idle, error) {
	o.Size = minSize // of the greetings
	if err := o.check(); err != nil {
		return nil, err
	}
	sc, err := idleScenario(o)
	if err != nil {
		return nil, err
	}
	server, err := sc.server()
	if err != nil {
		return nil, err
	}
	defer server.stop()
	idle := &Idle{Sessions: o.Sessions, From: o.From, To: o.To, Rounds: o.Rounds, Machine: process.Machine()}
	for _, k := range sc.kinds {
		costs, err := sc.idle(o, k, server.addr())
		if o.Context.Err() != nil {
			return nil, context.Cause(o.Context)
		}
		if err != nil {
			sc.addMissing(o, k.name, err)
			continue
		}
		idle.Subjects = append(idle.Subjects, costs)
	}
	idle.Missing = sc.Missing
	return idle, nil
}

// idleScenario returns the scenario of relayed sessions, or of a protocol's sessions.
func idleScenario(o *Options) (*scenario, error) {
	if o.From != "" {
		sc, err := terminating(o, "sessions", "session")
		if err != nil {
			return nil, err
		}
		from, _ := protocolNamed(o.From) // terminating has checked the name
		server, _ := protocolNamed(o.To)
		sc.kinds = sc.kinds[:len(bridgeSetups)] // codec/raknet measures go-raknet's idle connections beside ours
		sc.load = func(to netip.AddrPort, clients int) (load, error) {
			l, err := newGameLoad(from, server, clients, o.Size, to)
			if err != nil {
				return nil, err
			}
			l.idle = true
			return l, nil
		}
		return sc, nil
	}
	return &scenario{
		kinds:  append(relayKinds()[1:], requested(o, others)...),
		server: func() (server, error) { return startEcho() },
		load:   func(to netip.AddrPort, clients int) (load, error) { return newDatagramLoad(clients, o.Size, to) },
	}, nil
}

// idle measures a subject, with a new process in each round.
func (sc *scenario) idle(o *Options, k kind, server netip.AddrPort) (IdleCosts, error) {
	var resident, kernel, heap, core []float64
	var one IdleCosts
	empty, err := sc.scrapeIdle(o, k, server)
	if err != nil {
		return one, err
	}
	for i := range o.Rounds {
		o.progress("round %d of %d: %s", i+1, o.Rounds, k.name)
		if one, err = sc.idleRound(o, k, server); err != nil {
			return IdleCosts{}, err
		}
		resident, kernel = append(resident, one.Resident), append(kernel, one.Kernel)
		heap, core = append(heap, one.Heap), append(core, one.Core)
	}
	return IdleCosts{
		Name: k.name, Resident: median(resident), Kernel: median(kernel), Heap: median(heap), Core: median(core),
		ScrapeEmpty: empty, Scrape: one.Scrape,
	}, nil
}

func (sc *scenario) idleRound(o *Options, k kind, server netip.AddrPort) (costs IdleCosts, err error) {
	before, err := kernelMemory()
	if err != nil {
		return costs, err
	}
	s, err := sc.begin(o, k, server, o.Sessions)
	if err != nil {
		return costs, err
	}
	defer s.stop()
	if s.PID() == 0 || s.forks {
		return costs, errors.New("the subject has no process")
	}
	if costs.Core, err = s.idleShare(o.Window); err != nil {
		return costs, err
	}
	full, err := process.RSS(s.PID())
	if err != nil {
		return costs, err
	}
	after, err := kernelMemory()
	if err != nil {
		return costs, err
	}
	costs.Resident = float64(full-s.idle) / float64(o.Sessions)
	costs.Kernel = float64(after-before) / float64(o.Sessions)
	if s.admin.IsValid() {
		used, err := heap(s.admin)
		if err != nil {
			return costs, err
		}
		costs.Heap = (used - s.heap) / float64(o.Sessions)
		if costs.Scrape, err = scrape(s.admin); err != nil {
			return costs, err
		}
	}
	if costs.Scrape != nil && costs.Scrape.Sessions != o.Sessions {
		return costs, s.explain(fmt.Errorf("the subject has %d sessions of %d", costs.Scrape.Sessions, o.Sessions))
	}
	return costs, nil
}

// idleShare leaves the sessions idle for a time, and returns the subject's share of a core.
func (s *subject) idleShare(d time.Duration) (float64, error) {
	defer process.Unpin(os.Getpid())
	if err := process.Pin(os.Getpid(), 0); err != nil {
		return 0, err
	}
	runtime.GC() // collects our own garbage before measuring
	own, _, err := s.cpu()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for end := began.Add(d); time.Now().Before(end); {
		if err := s.load.turn(end); err != nil {
			return 0, err
		}
	}
	after, _, err := s.cpu()
	return float64(after-own) / float64(time.Since(began)), err
}
