package table

import (
	"slices"
	"strings"
	"testing"
)

func TestPrint(t *testing.T) {
	var out strings.Builder
	Print(&out, 0, []Column{{Name: "ID"}, {Name: "NUMBER", Number: true}, {Name: "NAME"}},
		[][]string{{"a", "1", "größer"}, {"bcd", "1234567", ""}})
	const want = "ID    NUMBER  NAME\na          1  größer\nbcd  1234567\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
}

// TestFitting leaves out the columns with the highest Drop until the rest fits.
func TestFitting(t *testing.T) {
	columns := []Column{{Name: "a"}, {Name: "b", Drop: 1}, {Name: "c", Drop: 3}, {Name: "d", Drop: 2}, {Name: "e"}}
	widths := []int{10, 10, 10, 10, 10}
	for _, c := range []struct {
		width int
		want  string
	}{{0, "abcde"}, {58, "abcde"}, {57, "abde"}, {46, "abde"}, {45, "abe"}, {33, "ae"}, {1, "ae"}} {
		var got string
		for i, shown := range fitting(columns, widths, c.width) {
			if shown {
				got += columns[i].Name
			}
		}
		if got != c.want {
			t.Errorf("in %d characters %s, want %s", c.width, got, c.want)
		}
	}
	if !slices.Equal(widths, []int{10, 10, 10, 10, 10}) {
		t.Error("the widths have changed")
	}
}
