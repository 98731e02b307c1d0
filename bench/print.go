package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes a result as tables.
func (r *Result) Print(w io.Writer) error {
	load := "as many as come back"
	if r.Rate > 0 {
		load = fmt.Sprintf("%d a second from clients", r.Rate)
	}
	fmt.Fprintf(w, "%s: %d sessions, datagrams of %d bytes, %s; medians of %d rounds; %s\n\n", r.Scenario, r.Sessions, r.Size,
		load, r.Rounds, r.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "subject\tdatagrams/s\tCPU ns each\tadded to direct\tloss %\tRTT p50 µs\tp99\tp99.9\tB/session\t")
	for _, f := range r.Subjects {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%.2f\t%.0f\t%.0f\t%.0f\t%s\t\n", f.Name, f.PerSecond, known(f.CPU), known(f.CPUAll),
			100*f.Loss, f.P50, f.P99, f.P999, known(f.SessionMemory))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Ratios) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(t, "Tidegate over\tcpu_ratio\tcpu_ratio_user\trtt_p99_ratio\tmemory_ratio\t")
		for _, x := range r.Ratios {
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", x.Over, x.CPU, x.CPUUser, x.P99, x.Memory)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintln(w, "not measured:", m)
	}
	return nil
}

// known is a figure, or a dash for one that there is not.
func known(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", v)
}
