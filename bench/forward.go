package bench

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"
)

// Result is what a scenario found out.
type Result struct {
	Scenario string    `json:"scenario"`
	Sessions int       `json:"sessions"`
	Size     int       `json:"size"` // bytes of each datagram
	Rate     int       `json:"rate"` // datagrams a second from clients; 0: as many as come back
	Rounds   int       `json:"rounds"`
	Machine  string    `json:"machine"`
	Subjects []Figures `json:"subjects"`
	Ratios   []Ratios  `json:"ratios,omitempty"`
	Missing  []string  `json:"missing,omitempty"` // asked for and not measured, with the reason
}

// Figures are a subject's medians over all rounds. A datagram there and its echo back are two datagrams.
type Figures struct {
	Name          string  `json:"name"`
	PerSecond     float64 `json:"datagrams_per_second"`
	CPU           float64 `json:"cpu_ns_per_datagram"`       // of its process; 0: it has none
	CPUAll        float64 `json:"cpu_ns_per_datagram_added"` // to direct's, over all processes; 0: unknown
	Loss          float64 `json:"loss"`                      // share of those sent
	P50           float64 `json:"rtt_p50_us"`
	P99           float64 `json:"rtt_p99_us"`
	P999          float64 `json:"rtt_p999_us"`
	SessionMemory float64 `json:"bytes_per_session"` // resident, of its process
}

// Ratios are Tidegate's figures over another subject's.
type Ratios struct {
	Over    string  `json:"over"`
	CPU     float64 `json:"cpu_ratio"`      // of Tidegate's best way
	CPUUser float64 `json:"cpu_ratio_user"` // of its best way that does without the kernel's fast path
	P99     float64 `json:"rtt_p99_ratio"`  // of the ways for cpu_ratio_user
	// Memory is for each session.
	Memory float64 `json:"memory_ratio"`
}

// measured is one subject with what its rounds brought.
type measured struct {
	*subject
	rounds []round
	idle   int64 // resident bytes before its first session
	full   int64 // with all of them
}

// round is one measurement.
type round struct {
	sent, back   uint64
	took         time.Duration
	own, all     time.Duration // processor time: of the subject's process, of that and ours
	p50, p99, pm int64         // µs
}

// Forward measures datagrams that are passed on as they are.
func Forward(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := startEcho()
	if err != nil {
		return nil, err
	}
	defer server.stop()
	result := &Result{
		Scenario: "forward", Sessions: o.Sessions, Size: o.Size, Rate: o.Rate, Rounds: o.Rounds, Machine: machine(),
	}
	var all []*measured
	defer func() {
		for _, m := range all {
			m.stop()
		}
	}()
	for _, k := range kinds(o) {
		m, err := begin(o, k, server.addr(), dir)
		if err != nil {
			result.Missing = append(result.Missing, fmt.Sprintf("%s: %v", k.name, err))
			o.tell("%s: %v", k.name, err)
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
	result.conclude(all)
	return result, nil
}

// kinds are Tidegate's ways and whatever else is asked for. Direct is always among them: costs are told beyond its.
func kinds(o *Options) []kind {
	all := []kind{others[0]}
	for _, w := range ways {
		all = append(all, kind{w.name, func(o *Options, echo netip.AddrPort, dir string) (*subject, error) {
			return startTidegate(o, w, echo, dir)
		}, nothing})
	}
	for _, k := range others[1:] {
		if slices.Contains(o.Vs, k.name) {
			all = append(all, k)
		}
	}
	return all
}

// begin starts a subject and gives it its sessions.
func begin(o *Options, k kind, echo netip.AddrPort, dir string) (*measured, error) {
	if what := k.missing(); what != "" {
		return nil, fmt.Errorf("there is no %s on this machine", what)
	}
	o.tell("start %s", k.name)
	s, err := k.start(o, echo, dir)
	if err != nil {
		return nil, err
	}
	m := &measured{subject: s}
	if err := m.fill(o); err != nil {
		s.stop()
		return nil, err
	}
	return m, nil
}

// fill opens the sessions, and notes what they take.
func (m *measured) fill(o *Options) (err error) {
	if pid := m.pid(); pid != 0 {
		if err := pin(pid, runtime.NumCPU()-1); err != nil {
			return err
		}
		if m.idle, err = rssOf(pid); err != nil {
			return err
		}
	}
	if m.load, err = newLoad(o.Sessions, o.Size, m.addr); err != nil {
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

// measure adds a round. Ours are the processes of load and echo, on a core of their own.
func (m *measured) measure(o *Options) error {
	if err := pin(os.Getpid(), 0); err != nil {
		return err
	}
	play := func(d time.Duration) error {
		if o.Rate == 0 {
			return m.load.saturate(d)
		}
		return m.load.pace(o.Rate, d)
	}
	if err := play(o.Window / 5); err != nil { // to warm up
		return err
	}
	m.load.reset()
	own, ours, err := m.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := play(o.Window); err != nil {
		return err
	}
	took := time.Since(began)
	ownAfter, oursAfter, err := m.cpu()
	if err != nil {
		return err
	}
	d := m.load.delays
	m.rounds = append(m.rounds, round{
		sent: m.load.sent, back: m.load.back, took: took,
		own: ownAfter - own, all: ownAfter - own + oursAfter - ours,
		p50: d.ValueAtQuantile(50), p99: d.ValueAtQuantile(99), pm: d.ValueAtQuantile(99.9),
	})
	return nil
}

func (m *measured) cpu() (own, ours time.Duration, err error) {
	if pid := m.pid(); pid != 0 {
		if own, err = cpuOf(pid); err != nil {
			return 0, 0, err
		}
	}
	ours, err = cpuOf(os.Getpid())
	return own, ours, err
}
