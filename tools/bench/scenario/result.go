package scenario

import (
	"strings"
	"time"
)

// Result is the result of a scenario.
type Result struct {
	Scenario string        `json:"scenario"`
	Of       string        `json:"of"` // the item that figures count: "datagram", "message" or "session"
	Sessions int           `json:"sessions,omitempty"`
	Size     int           `json:"size,omitempty"`      // bytes of each datagram or message
	Ticks    int           `json:"ticks,omitempty"`     // a second
	State    int           `json:"state,omitempty"`     // bytes of each state that the server sends at a tick
	From     string        `json:"from,omitempty"`      // protocol of the clients; empty: datagrams pass unchanged
	To       string        `json:"to,omitempty"`        // protocol of the server
	Rate     int           `json:"rate"`                // a second from clients; 0: as many as return
	Flight   int           `json:"flight,omitempty"`    // messages in flight without a rate; 0: 256
	Burst    int           `json:"burst,omitempty"`     // messages at once
	Path     time.Duration `json:"path_ns,omitempty"`   // that a datagram takes to the subject, each way
	PathLoss float64       `json:"path_loss,omitempty"` // share of datagrams that this path loses, each way
	Rounds   int           `json:"rounds"`
	Machine  string        `json:"machine"`
	Subjects []Figures     `json:"subjects"`
	Ratios   []Ratios      `json:"ratios,omitempty"`
	Growth   []Growth      `json:"growth,omitempty"`
	Busy     []string      `json:"busy,omitempty"`    // subjects that lost more than the figures bear
	Missing  []string      `json:"missing,omitempty"` // subjects that could not be measured, with the reason
}

// Figures are a subject's medians over all rounds. A datagram or message and its echo are two items.
type Figures struct {
	Name          string  `json:"name"`
	Sessions      int     `json:"sessions,omitempty"`
	PerSecond     float64 `json:"per_second"`
	CPU           float64 `json:"cpu_ns"`       // of the subject's process; 0: it has none
	CPUAll        float64 `json:"cpu_ns_added"` // in addition to direct's, over all processes; 0: unknown
	Allocs        float64 `json:"allocations"`  // of the subject's process; negative: unknown
	Loss          float64 `json:"loss"`         // share of sent items
	P50           float64 `json:"rtt_p50_us"`   // of a session: until the client is connected
	P90           float64 `json:"rtt_p90_us"`
	P99           float64 `json:"rtt_p99_us"`
	P999          float64 `json:"rtt_p999_us"`
	SessionMemory float64 `json:"bytes_per_session"` // resident memory of the subject's process
}

// Ratios are Tidegate's figures divided by another subject's.
type Ratios struct {
	Over    string  `json:"over"`
	CPU     float64 `json:"cpu_ratio"`      // of Tidegate's best setup
	CPUUser float64 `json:"cpu_ratio_user"` // of Tidegate's best setup without the kernel's fast path
	Setups  []Ratio `json:"ways"`
}

// Ratio is the ratio of one of Tidegate's setups.
type Ratio struct {
	Setup  string  `json:"way"`
	CPU    float64 `json:"cpu_ratio"`
	P50    float64 `json:"rtt_p50_ratio"`
	P90    float64 `json:"rtt_p90_ratio"`
	P99    float64 `json:"rtt_p99_ratio"`
	Memory float64 `json:"memory_ratio"` // for each session; 0: unknown
}

// fastPath is the setup in which the kernel forwards everything.
const fastPath = "tidegate-kernel"

func (r *Result) ratios(other *Figures) Ratios {
	ratios := Ratios{Over: other.Name}
	for i := range r.Subjects {
		f := &r.Subjects[i]
		if !isOurs(f) || f.Sessions > r.Sessions {
			continue
		}
		one := f.over(other)
		ratios.Setups = append(ratios.Setups, one)
		keepLeast(&ratios.CPU, one.CPU)
		if f.Name != fastPath {
			keepLeast(&ratios.CPUUser, one.CPU)
		}
	}
	return ratios
}

// over compares with another subject. Two processes are compared by their own processor time, which excludes the noise
// of direct. The kernel's fast path has no process, so it is compared by the time it adds to direct.
func (f *Figures) over(other *Figures) Ratio {
	one := Ratio{
		Setup: f.Name, P50: quotient(f.P50, other.P50), P90: quotient(f.P90, other.P90), P99: quotient(f.P99, other.P99),
	}
	if f.Name == fastPath || other.CPU == 0 {
		one.CPU = quotient(f.CPUAll, other.CPUAll)
		return one
	}
	one.CPU = f.CPU / other.CPU
	if other.SessionMemory > 0 {
		one.Memory = f.SessionMemory / other.SessionMemory
	}
	return one
}

// Growth is the processor time of a datagram with more clients, divided by that with the usual number.
type Growth struct {
	Setup string  `json:"way"`
	CPU   float64 `json:"cpu_ratio"`
}

// growth compares f with the figures of its setup with fewer clients.
func growth(all []Figures, f *Figures) Growth {
	g := Growth{Setup: f.Name}
	for i := range all {
		if name, _, _ := strings.Cut(f.Name, ","); name == all[i].Name {
			g.CPU = quotient(f.CPU, all[i].CPU)
			if name == fastPath {
				g.CPU = quotient(f.CPUAll, all[i].CPUAll)
			}
		}
	}
	return g
}

// keepLeast keeps the smaller of two values; a present value of 0 is none.
func keepLeast(have *float64, value float64) {
	if *have == 0 || value < *have {
		*have = value
	}
}
