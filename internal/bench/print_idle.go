package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes a result as a table.
func (i *Idle) Print(w io.Writer) error {
	what := "relayed"
	if i.From != "" {
		what = fmt.Sprintf("%s to %s", i.From, i.To)
	}
	fmt.Fprintf(w, "sessions: %d idle ones, %s; medians of %d rounds; %s\n\n", i.Sessions, what, i.Rounds, i.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "subject\tresident B/session\tof them in use\tkernel B/session\t% of a core, all together\t")
	for _, c := range i.Subjects {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%.0f\t%.2f\t\n", c.Name, c.Resident, known(c.Heap), c.Kernel, 100*c.Core)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range i.Subjects {
		if c.Scrape != nil && c.ScrapeEmpty != nil {
			fmt.Fprintf(w, "a scrape of %s: %d bytes in %.1f ms with %d sessions, %d bytes in %.1f ms with %d\n", c.Name,
				c.ScrapeEmpty.Bytes, c.ScrapeEmpty.Millis, c.ScrapeEmpty.Sessions, c.Scrape.Bytes, c.Scrape.Millis, c.Scrape.Sessions)
		}
	}
	for _, m := range i.Missing {
		fmt.Fprintln(w, "not measured:", m)
	}
	return nil
}
