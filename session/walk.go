package session

import "slices"

// Walk visits the entries that a Table has at the start of the walk, oldest first. Its owner may pause it and change
// the table meanwhile: the Walk leaves out entries that are removed before their turn.
type Walk[T any] struct {
	table      *Table[T]
	next, last *Entry[T] // nil at the end
}

// Walk begins a walk. It must be walked to its end, or stopped.
func (t *Table[T]) Walk() *Walk[T] {
	w := &Walk[T]{table: t, next: t.first, last: t.last}
	if t.first != nil {
		t.walks = append(t.walks, w)
	}
	return w
}

// Next returns the next entry, or nil at the end. The owner may remove it.
func (w *Walk[T]) Next() *Entry[T] {
	e := w.next
	if e == nil {
		return nil
	}
	w.table.visited++
	w.pass(e)
	return e
}

// Ended reports whether no entry is left.
func (w *Walk[T]) Ended() bool { return w.next == nil }

// Stop ends the walk early.
func (w *Walk[T]) Stop() {
	w.next, w.last = nil, nil
	w.table.walks = slices.DeleteFunc(w.table.walks, func(other *Walk[T]) bool { return other == w })
}

// pass moves the walk beyond its next entry.
func (w *Walk[T]) pass(e *Entry[T]) {
	if e == w.last {
		w.Stop()
		return
	}
	w.next = e.next
}

// leave takes an entry that is about to be removed out of the way of all walks.
func (t *Table[T]) leave(e *Entry[T]) {
	for _, w := range slices.Backward(t.walks) { // a walk may end here
		switch {
		case w.next == e:
			w.pass(e)
		case w.last == e:
			w.last = e.prev
		}
	}
}

// Visited returns how many entries all walks have visited so far, including those of All.
func (t *Table[T]) Visited() uint64 { return t.visited }
