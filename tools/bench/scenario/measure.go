package scenario

import (
	"os"
	"time"

	"tidegate/tools/bench/process"
)

// measured has the rounds of a subject.
type measured struct {
	kind
	clients    int
	ownProcess bool // which does all of the subject's work
	rounds     []round
}

// round is one measurement.
type round struct {
	sent, back uint64
	took       time.Duration
	own, all   time.Duration // processor time: of the subject's process, and of that together with ours
	allocs     float64       // of the subject's process
	memory     int64         // growth of its memory with its sessions, in bytes
	p50, p90   int64         // µs
	p99, p999  int64         // µs
}

// warmUp is the least time for a subject to allocate the memory that it reuses later.
const warmUp = time.Second

// measure measures one round. Load and server are in our process, on a core of their own.
func (s *subject) measure(o *Options) (r round, err error) {
	defer process.Unpin(os.Getpid())
	if err := process.Pin(os.Getpid(), 0); err != nil {
		return r, err
	}
	if err := s.play(o, max(o.Window/5, warmUp)); err != nil {
		return r, err
	}
	memory, err := s.allocations()
	if err != nil {
		return r, err
	}
	own, ours, err := s.cpu()
	if err != nil {
		return r, err
	}
	t := s.load.stats()
	t.reset()
	began := time.Now()
	if err := s.play(o, o.Window); err != nil {
		return r, err
	}
	r = round{took: time.Since(began), sent: t.sent, back: max(1, t.back), memory: s.full - s.idle}
	ownAfter, oursAfter, err := s.cpu()
	if err != nil {
		return r, err
	}
	r.own, r.all = ownAfter-own, ownAfter-own+oursAfter-ours
	if r.allocs, err = memory(); err != nil {
		return r, err
	}
	r.p50, r.p90 = t.delays.ValueAtQuantile(50), t.delays.ValueAtQuantile(90)
	r.p99, r.p999 = t.delays.ValueAtQuantile(99), t.delays.ValueAtQuantile(99.9)
	return r, nil
}

func (s *subject) play(o *Options, d time.Duration) error {
	if o.Rate == 0 {
		return saturate(s.load, d)
	}
	return pace(s.load, o.Rate, d)
}

func (s *subject) cpu() (own, ours time.Duration, err error) {
	if pid := s.PID(); pid != 0 {
		if own, err = process.CPUTime(pid); err != nil {
			return 0, 0, err
		}
	}
	ours, err = process.CPUTime(os.Getpid())
	return own, ours, err
}
