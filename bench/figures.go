package bench

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// conclude makes figures and ratios of the rounds.
func (sc *scenario) conclude(all []*measured) {
	direct := 0.0 // over all processes, of each
	for _, m := range all {
		if len(m.rounds) == 0 {
			continue
		}
		f := sc.figures(m)
		everything := m.median(func(r round) float64 { return sc.of(r, float64(r.all)) })
		switch {
		case m.name == "direct":
			direct = everything
		case direct > 0:
			f.CPUAll = everything - direct
		}
		sc.Subjects = append(sc.Subjects, f)
	}
	for i := range sc.Subjects {
		if f := &sc.Subjects[i]; f.Name != "direct" && !isOurs(f) {
			sc.Ratios = append(sc.Ratios, sc.ratios(f))
		}
	}
}

// of is a round's figure for each.
func (sc *scenario) of(r round, figure float64) float64 { return figure / float64(sc.each*r.back) }

func isOurs(f *Figures) bool { return strings.HasPrefix(f.Name, "tidegate") }

func (sc *scenario) figures(m *measured) Figures {
	f := Figures{
		Name:      m.name,
		PerSecond: m.median(func(r round) float64 { return float64(sc.each*r.back) / r.took.Seconds() }),
		Allocs:    m.median(func(r round) float64 { return sc.of(r, r.allocs) }),
		Loss:      m.median(func(r round) float64 { return float64(r.sent-min(r.sent, r.back)) / float64(r.sent) }),
		P50:       m.median(func(r round) float64 { return float64(r.p50) }),
		P99:       m.median(func(r round) float64 { return float64(r.p99) }),
		P999:      m.median(func(r round) float64 { return float64(r.pm) }),
	}
	if m.ownProcess {
		f.CPU = m.median(func(r round) float64 { return sc.of(r, float64(r.own)) })
		if sc.Sessions > 0 {
			f.SessionMemory = m.median(func(r round) float64 { return float64(r.memory) / float64(sc.Sessions) })
		}
	}
	return f
}

// median is that of a figure over the rounds.
func (m *measured) median(of func(round) float64) float64 {
	values := make([]float64, len(m.rounds))
	for i, r := range m.rounds {
		values[i] = of(r)
	}
	return median(values)
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// ratios are ours over another's. Where both have a process, its own time is what counts, which direct's noise is not in;
// the kernel's fast path has none, and is compared by what it adds to direct.
func (r *Result) ratios(other *Figures) Ratios {
	ratios := Ratios{Over: other.Name}
	for i := range r.Subjects {
		f := &r.Subjects[i]
		if !isOurs(f) {
			continue
		}
		if f.Name == "tidegate-kernel" {
			least(&ratios.CPU, f.CPUAll/other.CPUAll)
			continue
		}
		cpu := f.CPU / other.CPU
		if other.CPU == 0 {
			cpu = f.CPUAll / other.CPUAll
		}
		least(&ratios.CPU, cpu)
		if least(&ratios.CPUUser, cpu) {
			ratios.P99 = f.P99 / other.P99
		}
		if other.SessionMemory > 0 {
			least(&ratios.Memory, f.SessionMemory/other.SessionMemory)
		}
	}
	return ratios
}

// least keeps the smaller of what there is, if anything, and a new value, and reports whether that is the new one.
func least(have *float64, value float64) bool {
	if *have == 0 || value < *have {
		*have = value
		return true
	}
	return false
}

// machine says where it was measured.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
