package codectest

import (
	"fmt"

	"tidegate/codec/codectest/simnet"
)

// tb is the part of testing.TB that the suite uses, so that the suite's own tests can watch it fail.
type tb interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

const (
	maxErrors      = 5 // of one simulation; later errors usually follow from the first
	maxFailedSeeds = 3 // of one check
)

// report collects the faults of one simulation.
type report struct {
	t        tb
	what     string
	errors   int
	cleanups []func()
}

func (r *report) Helper()                         { r.t.Helper() }
func (r *report) Logf(format string, args ...any) { r.t.Logf(format, args...) }
func (r *report) Failed() bool                    { return r.errors > 0 }
func (r *report) Cleanup(f func())                { r.cleanups = append(r.cleanups, f) }

func (r *report) Errorf(format string, args ...any) {
	r.t.Helper()
	if r.errors++; r.errors <= maxErrors {
		r.t.Errorf("%s: %s", r.what, fmt.Sprintf(format, args...))
	}
}

// simulate runs one simulation, and logs its trace if it fails. It reports whether the run had no fault.
func simulate(t tb, what string, run func(r *report)) bool {
	t.Helper()
	r := &report{t: t, what: what}
	run(r)
	for _, f := range r.cleanups {
		f()
	}
	return !r.Failed()
}

// simulateSeeds runs a simulation for each of n seeds. It stops early after maxFailedSeeds failures. It returns the
// number of runs.
func simulateSeeds(t tb, n int, run func(r *report, seed uint64)) int {
	t.Helper()
	seeds := simnet.Seeds(n)
	failed := 0
	for i, seed := range seeds {
		if !simulate(t, fmt.Sprintf("seed %d", seed), func(r *report) { run(r, seed) }) {
			failed++
		}
		if failed == maxFailedSeeds {
			t.Logf("stopped after %d failed seeds", failed)
			return i + 1
		}
	}
	return len(seeds)
}
