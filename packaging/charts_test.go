package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// figure is a label of a bar in a chart.
var figure = regexp.MustCompile(`>([0-9]{1,3}(?:,[0-9]{3})*)</text>`)

// TestCharts asserts that the charts have figures of the tables: `make charts` draws them again after a change.
func TestCharts(t *testing.T) {
	tables, err := os.ReadFile("../docs/benchmarks/peers.md")
	if err != nil {
		t.Fatal(err)
	}
	charts, err := filepath.Glob("../docs/pictures/bench-*.svg")
	if err != nil || len(charts) != 2 {
		t.Fatalf("charts %v, %v", charts, err)
	}
	for _, path := range charts {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, label := range figure.FindAllStringSubmatch(string(b), -1) {
			if label[1] == "0" { // of the axis
				continue
			}
			if found++; !strings.Contains(string(tables), "| "+label[1]+" ") {
				t.Errorf("%s has %s, and no table has it", path, label[1])
			}
		}
		if found != 6 {
			t.Errorf("%s has %d figures, want 6", path, found)
		}
	}
}
