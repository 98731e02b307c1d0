package session

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// walkTable returns a table with n entries, whose values count up from 0.
func walkTable(t *testing.T, n int) (*Table[int], []*Entry[int]) {
	t.Helper()
	table := NewTable[int](Limits{Sessions: 100, HalfOpen: 100}, time.Unix(0, 0))
	var all []*Entry[int]
	for i := range n {
		e, err := table.Add(Key{0, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(1+i))}, i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return table, all
}

// TestWalkSurvivesChanges walks a table that changes at each step: entries before, at and after the walk's place are
// removed, the last one too, and new ones come.
func TestWalkSurvivesChanges(t *testing.T) {
	for _, c := range []struct {
		what   string
		remove map[int][]int // after the visit of a value, these values are removed
		add    bool
		want   []int
	}{
		{"no change", nil, false, []int{0, 1, 2, 3, 4}},
		{"visited", map[int][]int{2: {0, 1, 2}}, false, []int{0, 1, 2, 3, 4}},
		{"the next", map[int][]int{1: {2}}, false, []int{0, 1, 3, 4}},
		{"all to come", map[int][]int{1: {2, 3, 4}}, false, []int{0, 1}},
		{"all to come, last first", map[int][]int{1: {4, 3, 2}}, true, []int{0, 1}},
		{"the last", map[int][]int{1: {4}}, true, []int{0, 1, 2, 3}},
		{"new ones", nil, true, []int{0, 1, 2, 3, 4}},
	} {
		table, all := walkTable(t, 5)
		w, other := table.Walk(), table.Walk()
		var got []int
		for e := w.Next(); e != nil; e = w.Next() {
			got = append(got, e.Value)
			for _, i := range c.remove[e.Value] {
				table.Remove(all[i])
			}
			if c.add && len(got) == 1 {
				if _, err := table.Add(Key{1, netip.MustParseAddrPort("10.0.0.2:9")}, 99); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Equal(got, c.want) || !w.Ended() || w.Next() != nil {
			t.Errorf("%s: visited %v, want %v", c.what, got, c.want)
		}
		other.Stop()
		if len(table.walks) != 0 {
			t.Errorf("%s: %d walks are left", c.what, len(table.walks))
		}
	}
	table, _ := walkTable(t, 0)
	if w := table.Walk(); !w.Ended() || w.Next() != nil || len(table.walks) != 0 {
		t.Error("a walk of an empty table does not end")
	}
}
