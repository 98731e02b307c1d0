package scenario

import (
	"fmt"
	"io"

	"tidegate/internal/table"
)

// figureColumns returns a column of text and columns of figures.
func figureColumns(first string, figures ...string) []table.Column {
	columns := []table.Column{{Name: first}}
	for _, name := range figures {
		columns = append(columns, table.Column{Name: name, Number: true})
	}
	return columns
}

// Print writes the result as tables.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n", r.Scenario, r.circumstances())
	r.printFigures(w)
	r.printRatios(w)
	if len(r.Growth) > 0 {
		fmt.Fprintln(w)
	}
	for _, g := range r.Growth {
		fmt.Fprintf(w, "%s sessions: %.2f times the processor time for each\n", g.Setup, g.CPU)
	}
	for _, name := range r.Busy {
		fmt.Fprintf(w, "%s lost more than %.0f %%: the machine is too busy, or the rate too high; do not use its figures\n",
			name, 100*tooLossy)
	}
	printMissing(w, r.Missing)
	return nil
}

func (r *Result) printFigures(w io.Writer) {
	var rows [][]string
	for _, f := range r.Subjects {
		rows = append(rows, []string{
			f.Name, decimals(0, f.PerSecond), Figure(f.CPU), Figure(f.perCPU()), Figure(f.CPUAll), allocations(f.Allocs),
			decimals(2, 100*f.Loss),
			decimals(0, f.P50), decimals(0, f.P90), decimals(0, f.P99), decimals(0, f.P999), Figure(f.SessionMemory),
		})
	}
	table.Print(w, 0, figureColumns("subject", r.Of+"s/s", "own CPU ns", "per CPU s", "CPU ns over direct",
		"allocations",
		"loss %", "RTT p50 µs", "p90", "p99", "p99.9", "B/session"), rows)
}

func (r *Result) printRatios(w io.Writer) {
	var rows [][]string
	for _, x := range r.Ratios {
		for _, w := range x.Setups {
			rows = append(rows, []string{
				w.Setup, x.Over, decimals(3, w.CPU), decimals(1, quotient(1, w.CPU)), decimals(2, w.P50), decimals(2, w.P90),
				decimals(2, w.P99), decimals(2, w.Memory),
			})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		table.Print(w, 0, figureColumns("setup", "over", "cpu_ratio", "per CPU s, times", "rtt_p50_ratio", "rtt_p90_ratio",
			"rtt_p99_ratio", "memory_ratio"), rows)
	}
}

// Print writes the result as a table.
func (i *Idle) Print(w io.Writer) error {
	kind := "relayed"
	if i.From != "" {
		kind = fmt.Sprintf("%s to %s", i.From, i.To)
	}
	fmt.Fprintf(w, "sessions: %d idle, %s; medians of %d rounds; %s\n\n", i.Sessions, kind, i.Rounds, i.Machine)
	var rows [][]string
	for _, c := range i.Subjects {
		rows = append(rows, []string{
			c.Name, decimals(0, c.Resident), Figure(c.Heap), decimals(0, c.Kernel), decimals(2, 100*c.Core),
		})
	}
	table.Print(w, 0, figureColumns("subject", "resident B/session", "in use B/session", "kernel B/session",
		"% of a core for all"), rows)
	for _, c := range i.Subjects {
		if c.Scrape != nil && c.ScrapeEmpty != nil {
			fmt.Fprintf(w, "scrape of %s: %d bytes in %.1f ms with %d sessions, %d bytes in %.1f ms with %d\n", c.Name,
				c.ScrapeEmpty.Bytes, c.ScrapeEmpty.Millis, c.ScrapeEmpty.Sessions,
				c.Scrape.Bytes, c.Scrape.Millis, c.Scrape.Sessions)
		}
	}
	printMissing(w, i.Missing)
	return nil
}

func printMissing(w io.Writer, missing []string) {
	for _, m := range missing {
		fmt.Fprintln(w, "not measured:", m)
	}
}

// circumstances describes the measurement.
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
	if r.State > 0 {
		text += fmt.Sprintf("%d ticks a second with a state of %d bytes for each, ", r.Ticks, r.State)
	}
	if r.Burst > 1 {
		text += fmt.Sprintf("%d at a time, ", r.Burst)
	}
	if r.Path > 0 || r.PathLoss > 0 {
		text += fmt.Sprintf("a path of %v each way that loses %.1f %%, ", r.Path, 100*r.PathLoss)
	}
	switch {
	case r.Rate > 0:
		text += fmt.Sprintf("%d a second from clients", r.Rate)
	case r.Flight > 0:
		text += fmt.Sprintf("%d in flight", r.Flight)
	default:
		text += "the default number in flight"
	}
	return text + fmt.Sprintf("; medians of %d rounds; %s", r.Rounds, r.Machine)
}

// perCPU returns the number for one second of processor time; 0: unknown.
func (f *Figures) perCPU() float64 {
	if f.CPU == 0 {
		return 0
	}
	return 1e9 / f.CPU
}

func decimals(n int, v float64) string { return fmt.Sprintf("%.*f", n, v) }

// Figure formats a figure without decimals, or a dash for an unknown one, which is 0.
func Figure(v float64) string {
	if v == 0 {
		return "-"
	}
	return decimals(0, v)
}

// allocations formats a number of allocations, or a dash for an unknown one, which is negative.
func allocations(v float64) string {
	if v < 0 {
		return "-"
	}
	return decimals(3, v)
}
