package relay

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"tidegate/proxy/stats"
)

// TestManualHasEveryDrop compares the manual's table with the reasons of drops, in both directions.
func TestManualHasEveryDrop(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operate/drops.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(manual), "# Reasons to drop\n")
	table, _, _ = strings.Cut(table, "\n#")
	found := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|([^|]*)\\|([^|]*)\\|$").FindAllStringSubmatch(table, -1) {
		for _, reason := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			found[reason[1]] = true
		}
		if len(strings.TrimSpace(row[2])) < 10 || len(strings.TrimSpace(row[3])) < 5 {
			t.Errorf("the manual says too little about %s", row[1])
		}
	}
	for d := range stats.DropCount {
		if !found[d.String()] {
			t.Errorf("the manual lacks %s", d)
		}
		delete(found, d.String())
	}
	for reason := range found {
		t.Errorf("the manual has %s, which is no reason", reason)
	}
}
