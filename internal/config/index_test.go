package config

import (
	"strings"
	"testing"
)

func TestIndex(t *testing.T) {
	x := newIndex("t.toml", []byte(`top = 1
  [ table . sub ]
key =	"v"
dotted.key = 2
"quo.ted" = 3
[[list]]
a = [1, "é", 'x', [5],
  true, {in = 4}]
[list.sub]
b = 1
[[list]]
b = {c.d = 1, e = {f = {g = 1}}}
[[list.deep]]
h = 1
[table.other]
`))
	for _, row := range []struct {
		path       string
		key, value position
	}{
		{"top", position{1, 1}, position{1, 7}},
		{"table", position{2, 5}, position{2, 5}},
		{"table.sub", position{2, 13}, position{2, 13}},
		{"table.sub.key", position{3, 1}, position{3, 7}},
		{"table.sub.dotted", position{4, 1}, position{4, 1}},
		{"table.sub.dotted.key", position{4, 8}, position{4, 14}},
		{`table.sub."quo.ted"`, position{5, 1}, position{5, 13}},
		{"list[0]", position{6, 3}, position{6, 3}},
		{"list[0].a", position{7, 1}, position{7, 5}},
		{"list[0].a[1]", position{7, 9}, position{7, 9}},
		{"list[0].a[2]", position{7, 15}, position{7, 15}},
		{"list[0].a[3]", position{7, 5}, position{7, 5}},
		{"list[0].a[4]", position{8, 3}, position{8, 3}},
		{"list[0].a[5].in", position{8, 10}, position{8, 15}},
		{"list[0].sub.b", position{10, 1}, position{10, 5}},
		{"list[1]", position{11, 3}, position{11, 3}},
		{"list[1].b.c.d", position{12, 8}, position{12, 12}},
		{"list[1].b.e.f", position{12, 20}, position{12, 24}},
		{"list[1].deep[0].h", position{14, 1}, position{14, 5}},
	} {
		if !x.has(row.path) {
			t.Errorf("%s is not indexed", row.path)
		}
		if got := x.find(row.path); got != (place{row.key, row.value}) {
			t.Errorf("%s is at %v, want %v and %v", row.path, got, row.key, row.value)
		}
	}
	for path, want := range map[string]position{
		"list[1].missing":   {11, 3},
		"table.sub.missing": {2, 13},
		"list[7].missing":   {6, 3},
		"missing.at.all":    {1, 1},
	} {
		if got := x.find(path); x.has(path) || got != (place{want, want}) {
			t.Errorf("%s, which is missing, is at %v, want %v", path, got, want)
		}
	}
}

// TestIndexDepth reaches the bound on nesting with each kind of nesting in TOML.
func TestIndexDepth(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a.", 1000) + "a = 1",
		"[" + strings.Repeat("a.", 1000) + "a]",
		strings.Repeat("a = {", 1000) + "a = 1" + strings.Repeat("}", 1000),
		"a = " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	} {
		if got := len(newIndex("t.toml", []byte(text)).places); got != maxDepth {
			t.Errorf("%.9s...: %d places, want %d", text, got, maxDepth)
		}
	}
}
