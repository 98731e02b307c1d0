package flow

import "testing"

// TestBitmap checks two flows that share a bit: one is still forwarded when the other has ended, and no bit stays set
// after both.
func TestBitmap(t *testing.T) {
	table, err := New(Options{Flows: 2})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { table.Close() })
	one, other := table.bitmap.sharing(t)
	for _, f := range []Flow{one, other, other} { // the last Add replaces the one before
		table.addLocal(t, f, 0)
	}
	table.wantForwarded(t, one, true)
	table.wantForwarded(t, other, true)
	table.Delete(one)
	table.Delete(one)
	table.wantForwarded(t, one, false)
	table.wantForwarded(t, other, true)
	table.Delete(other)
	if n := table.bitmap.set(t); n != 0 {
		t.Errorf("%d bits are set without any flow", n)
	}
}

// sharing returns two flows whose client keys have the same bit.
func (b *bitmap) sharing(t *testing.T) (one, other Flow) {
	t.Helper()
	seen := make(map[uint64]Flow)
	for _, f := range strangers(1 << 16) {
		k := newKey(f.Client, f.Listener)
		at := b.index(&k)
		if other, ok := seen[at]; ok {
			return f, other
		}
		seen[at] = f
	}
	t.Fatal("no two flows share a bit")
	return one, other
}

// set counts the bits that the program sees.
func (b *bitmap) set(t *testing.T) (n int) {
	t.Helper()
	for i := range uint32(1) << (b.width - 6) {
		var word uint64
		if err := b.words.Lookup(i, &word); err != nil {
			t.Fatal(err)
		}
		for ; word != 0; word &= word - 1 {
			n++
		}
	}
	return n
}

func (t *Table) wantForwarded(tb testing.TB, f Flow, want bool) {
	tb.Helper()
	before := t.packets(tb)
	run(tb, t, frame(f.Client, f.Listener, []byte("hello")), next)
	if got := t.packets(tb) > before; got != want {
		tb.Errorf("%v is forwarded: %t, want %t", f.Client, got, want)
	}
}

func (t *Table) packets(tb testing.TB) uint64 {
	tb.Helper()
	all, err := t.Totals()
	if err != nil {
		tb.Fatal(err)
	}
	return all.FromClient.Packets
}
