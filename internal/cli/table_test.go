package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestPrintTable(t *testing.T) {
	var out strings.Builder
	printTable(&out, []column{{name: "ID"}, {name: "NUMBER", number: true}, {name: "NAME"}},
		[][]string{{"a", "1", "größer"}, {"bcd", "1234567", ""}})
	const want = "ID    NUMBER  NAME\na          1  größer\nbcd  1234567\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
}

func TestTablesFitTheTerminal(t *testing.T) {
	columns := []column{{name: "a"}, {name: "b", dispose: 1}, {name: "c", dispose: 3}, {name: "d", dispose: 2}, {name: "e"}}
	widths := []int{10, 10, 10, 10, 10}
	for _, c := range []struct {
		width int
		want  string
	}{{0, "abcde"}, {58, "abcde"}, {57, "abde"}, {46, "abde"}, {45, "abe"}, {33, "ae"}, {1, "ae"}} {
		var got string
		for i, shown := range fitting(columns, widths, c.width) {
			if shown {
				got += columns[i].name
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
