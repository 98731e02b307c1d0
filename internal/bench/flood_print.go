package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes a result as a table.
func (r *FloodResult) Print(w io.Writer) error {
	fmt.Fprintf(w, "flood by %s: %d players at %d Hz, %v each; %s\n\n", r.Arena, r.Players, r.Rate, r.Window, r.Machine)
	if r.Why != "" {
		fmt.Fprintf(w, "no network of its own, so that the flood itself pays for being received: %s\n\n", r.Why)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "flood\tsubject\tsent k/s\tdropped: line\tuser\tkernel\tbuffer\treliable lost\tunreliable lost %\tplayers gone\t"+
		"newcomers\tRTT p50 ms\tp99\tcalm p99\tlate p99\tcores\tns a drop\tMiB before\tafter\t")
	for _, f := range r.Figures {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d of %d\t%.2f\t%d\t%d of %d\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%s\t%.1f\t%.1f\t\n",
			f.Kind, f.Subject, f.Sent/1e3, f.Line/1e3, f.User/1e3, f.Kernel/1e3, f.Buffer/1e3, f.ReliableLost, f.Reliable,
			100*float64(f.UnreliableLost)/float64(max(1, f.Unreliable)), f.Gone, f.Newcomers, doors, f.P50/1e3, f.P99/1e3,
			f.CalmP99/1e3, f.Late/1e3, f.Core, known(f.DropCost), float64(f.Before)/(1<<20), float64(f.After)/(1<<20))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range r.Missing {
		fmt.Fprintln(w, "not measured:", m)
	}
	return nil
}
