package bench

import "strings"

// Ratios are Tidegate's figures over another subject's.
type Ratios struct {
	Over    string  `json:"over"`
	CPU     float64 `json:"cpu_ratio"`      // of Tidegate's best way
	CPUUser float64 `json:"cpu_ratio_user"` // of its best way that does without the kernel's fast path
	Ways    []Ratio `json:"ways"`
}

// Ratio is that of one of Tidegate's ways.
type Ratio struct {
	Way    string  `json:"way"`
	CPU    float64 `json:"cpu_ratio"`
	P99    float64 `json:"rtt_p99_ratio"`
	Memory float64 `json:"memory_ratio"` // for each session; 0: unknown
}

// fastPath is the way by which the kernel does all.
const fastPath = "tidegate-kernel"

func (r *Result) ratios(other *Figures) Ratios {
	ratios := Ratios{Over: other.Name}
	for i := range r.Subjects {
		f := &r.Subjects[i]
		if !isOurs(f) || f.Sessions > r.Sessions {
			continue
		}
		one := f.over(other)
		ratios.Ways = append(ratios.Ways, one)
		least(&ratios.CPU, one.CPU)
		if f.Name != fastPath {
			least(&ratios.CPUUser, one.CPU)
		}
	}
	return ratios
}

// over compares with another. Where both have a process, its own time is what counts, which direct's noise is not in;
// the kernel's fast path has none, and is compared by what it adds to direct.
func (f *Figures) over(other *Figures) Ratio {
	one := Ratio{Way: f.Name, P99: f.P99 / other.P99}
	if f.Name == fastPath || other.CPU == 0 {
		one.CPU = f.CPUAll / other.CPUAll
		return one
	}
	one.CPU = f.CPU / other.CPU
	if other.SessionMemory > 0 {
		one.Memory = f.SessionMemory / other.SessionMemory
	}
	return one
}

// Growth is what a datagram costs in processor time with more clients, over what it costs with the others.
type Growth struct {
	Way string  `json:"way"`
	CPU float64 `json:"cpu_ratio"`
}

// growth finds the figures of the way that f is of with more clients.
func growth(all []Figures, f *Figures) Growth {
	g := Growth{Way: f.Name}
	for i := range all {
		if name, _, _ := strings.Cut(f.Name, ","); name == all[i].Name {
			g.CPU = f.CPU / all[i].CPU
			if name == fastPath {
				g.CPU = f.CPUAll / all[i].CPUAll
			}
		}
	}
	return g
}

// least keeps the smaller of what there is, if anything, and a new value.
func least(have *float64, value float64) {
	if *have == 0 || value < *have {
		*have = value
	}
}
