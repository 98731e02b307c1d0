package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes a result as tables.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n", r.Scenario, r.circumstances())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "subject\t%ss/s\tCPU ns each\teach CPU s\tadded to direct\tallocations\tloss %%\tRTT p50 µs\tp99\tp99.9\tB/session\t\n", r.Of)
	for _, f := range r.Subjects {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%s\t%s\t%.2f\t%.0f\t%.0f\t%.0f\t%s\t\n", f.Name, f.PerSecond, known(f.CPU), known(f.perCPU()),
			known(f.CPUAll), allocations(f.Allocs), 100*f.Loss, f.P50, f.P99, f.P999, known(f.SessionMemory))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Ratios) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(t, "way\tover\tcpu_ratio\teach CPU s, times\trtt_p99_ratio\tmemory_ratio\t")
		for _, x := range r.Ratios {
			for _, w := range x.Ways {
				fmt.Fprintf(t, "%s\t%s\t%.3f\t%.1f\t%.2f\t%.2f\t\n", w.Way, x.Over, w.CPU, 1/w.CPU, w.P99, w.Memory)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(r.Growth) > 0 {
		fmt.Fprintln(w)
	}
	for _, g := range r.Growth {
		fmt.Fprintf(w, "%s sessions: %.2f times the processor time for each\n", g.Way, g.CPU)
	}
	for _, m := range r.Missing {
		fmt.Fprintln(w, "not measured:", m)
	}
	return nil
}

// circumstances say how it was measured.
func (r *Result) circumstances() (text string) {
	if r.From != "" {
		text += fmt.Sprintf("%s to %s, ", r.From, r.To)
	}
	if r.Sessions > 0 {
		text += fmt.Sprintf("%d sessions, ", r.Sessions)
	}
	if r.Size > 0 {
		text += fmt.Sprintf("%d bytes each, ", r.Size)
	}
	if r.Burst > 1 {
		text += fmt.Sprintf("%d at a time, ", r.Burst)
	}
	switch {
	case r.Rate > 0:
		text += fmt.Sprintf("%d a second from clients", r.Rate)
	case r.Flight > 0:
		text += fmt.Sprintf("as many as come back of %d", r.Flight)
	default:
		text += "as many as come back"
	}
	return text + fmt.Sprintf("; medians of %d rounds; %s", r.Rounds, r.Machine)
}

// perCPU is how many a second of processor time does; 0: unknown.
func (f *Figures) perCPU() float64 {
	if f.CPU == 0 {
		return 0
	}
	return 1e9 / f.CPU
}

// known is a figure, or a dash for one that there is not.
func known(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", v)
}

func allocations(v float64) string {
	if v < 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}
