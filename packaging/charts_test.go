package packaging

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// label is a number in a chart: of an axis, or beside a bar.
	label  = regexp.MustCompile(`>([0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9])?)</text>`)
	figure = regexp.MustCompile(`[0-9][0-9,.]*`) // a cell may go on after its figure: "70,000, lost 26 %"
)

// TestCharts asserts that each bar has the figure of its row: `make charts` draws the charts again after a change. The
// bars of a column follow each other, the lowest first.
func TestCharts(t *testing.T) {
	for _, c := range []struct {
		chart, table string
		rows         []string // the lowest bar first
		columns      []int
	}{
		{"bench-relay", "peers.md", []string{
			"Traefik", "nginx", "tidegate, a socket each", "tidegate, `source_prefix`", "C program of the same design",
			"tidegate, in the kernel",
		}, []int{3}},
		{"bench-bridge", "peers.md", []string{
			"1,000 sessions, 256 messages under way", "10 sessions", "1 session, as many as come back",
		}, []int{1, 3}},
		{"bench-bulk", "bulk.md", []string{"10 %", "5 %, as above", "1 %"}, []int{2, 1}},
	} {
		var found []float64
		for _, match := range label.FindAllStringSubmatch(read(t, "../docs/pictures/"+c.chart+".svg"), -1) {
			found = append(found, number(t, match[1]))
		}
		table := read(t, "../docs/benchmarks/"+c.table)
		for _, column := range c.columns {
			var want []float64
			for _, row := range c.rows {
				_, line, ok := strings.Cut(table, "\n| "+row+" |")
				if !ok {
					t.Fatalf("%s has no row %q", c.table, row)
				}
				want = append(want, number(t, figure.FindString(strings.Split(line, "|")[column-1])))
			}
			if !hasRun(found, want) {
				t.Errorf("%s has the numbers %v, and column %d of its table is %v", c.chart, found, column, want)
			}
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSuffix(text, ","), ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// hasRun reports whether all has the elements of run one after the other.
func hasRun(all, run []float64) bool {
	for i := range len(all) - len(run) + 1 {
		if slices.Equal(all[i:i+len(run)], run) {
			return true
		}
	}
	return false
}
