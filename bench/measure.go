package bench

import (
	"os"
	"time"
)

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
	allocs       float64       // of the subject's process
	p50, p99, pm int64         // µs
}

// measure adds a round. Ours are the processes of load and server, on a core of their own.
func (m *measured) measure(o *Options) error {
	if err := pin(os.Getpid(), 0); err != nil {
		return err
	}
	if err := m.play(o, o.Window/5); err != nil { // to warm up
		return err
	}
	memory, err := m.allocations()
	if err != nil {
		return err
	}
	own, ours, err := m.cpu()
	if err != nil {
		return err
	}
	t := m.load.books()
	t.reset()
	began := time.Now()
	if err := m.play(o, o.Window); err != nil {
		return err
	}
	r := round{took: time.Since(began), sent: t.sent, back: max(1, t.back)}
	ownAfter, oursAfter, err := m.cpu()
	if err != nil {
		return err
	}
	r.own, r.all = ownAfter-own, ownAfter-own+oursAfter-ours
	if r.allocs, err = memory(); err != nil {
		return err
	}
	r.p50, r.p99, r.pm = t.delays.ValueAtQuantile(50), t.delays.ValueAtQuantile(99), t.delays.ValueAtQuantile(99.9)
	m.rounds = append(m.rounds, r)
	return nil
}

func (m *measured) play(o *Options, d time.Duration) error {
	if o.Rate == 0 {
		return saturate(m.load, d)
	}
	return pace(m.load, o.Rate, d)
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
