package scenario

import (
	"slices"
	"strings"
)

// conclude makes figures and ratios of the rounds.
func (sc *scenario) conclude(all []*measured) {
	direct := 0.0 // processor time of all processes for each item, with as many clients
	for _, m := range all {
		if len(m.rounds) == 0 {
			continue
		}
		f := sc.figures(m)
		everything := m.median(func(r round) float64 { return sc.perItem(r, float64(r.all)) })
		switch {
		case isDirect(m.name):
			direct = everything
		case direct > 0:
			f.CPUAll = everything - direct
		}
		if f.Loss > tooLossy {
			sc.Busy = append(sc.Busy, f.Name)
		}
		if sc.Subjects = append(sc.Subjects, f); isOurs(&f) && f.Sessions > sc.Sessions {
			sc.Growth = append(sc.Growth, growth(sc.Subjects, &f))
		}
	}
	for i := range sc.Subjects {
		if f := &sc.Subjects[i]; !isOurs(f) && (!isDirect(f.Name) || sc.overDirect) {
			sc.Ratios = append(sc.Ratios, sc.ratios(f))
		}
	}
}

// tooLossy is the share of lost items above which a subject's figures say more about the machine than about it.
const tooLossy = 0.05

// perItem divides a round's figure by its number of items.
func (sc *scenario) perItem(r round, figure float64) float64 {
	return quotient(figure, float64(sc.each*r.back))
}

// quotient divides two figures. Without a divisor it returns 0, which means unknown: JSON has no infinity.
func quotient(a, by float64) float64 {
	if by == 0 {
		return 0
	}
	return a / by
}

// isDirect reports whether a subject is the direct path, with the usual number of clients or with Options.Grow.
func isDirect(name string) bool { return name == "direct" || strings.HasPrefix(name, "direct, ") }

func isOurs(f *Figures) bool { return strings.HasPrefix(f.Name, "tidegate") }

func (sc *scenario) figures(m *measured) Figures {
	f := Figures{
		Name:      m.name,
		PerSecond: m.median(func(r round) float64 { return quotient(float64(sc.each*r.back), r.took.Seconds()) }),
		Allocs:    m.median(func(r round) float64 { return sc.perItem(r, r.allocs) }),
		Loss:      m.median(func(r round) float64 { return quotient(float64(r.sent-min(r.sent, r.back)), float64(r.sent)) }),
		P50:       m.median(func(r round) float64 { return float64(r.p50) }),
		P90:       m.median(func(r round) float64 { return float64(r.p90) }),
		P99:       m.median(func(r round) float64 { return float64(r.p99) }),
		P999:      m.median(func(r round) float64 { return float64(r.p999) }),
	}
	if sc.Sessions > 0 { // else clients come and go
		f.Sessions = m.clients
	}
	if m.ownProcess {
		f.CPU = m.median(func(r round) float64 { return sc.perItem(r, float64(r.own)) })
		if f.Sessions > 0 {
			f.SessionMemory = m.median(func(r round) float64 { return float64(r.memory) / float64(f.Sessions) })
		}
	}
	return f
}

// median returns the median of a figure over the rounds.
func (m *measured) median(figure func(round) float64) float64 {
	values := make([]float64, len(m.rounds))
	for i, r := range m.rounds {
		values[i] = figure(r)
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
