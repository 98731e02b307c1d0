package fleet

import "time"

// mergeable is a record of a bucket: the last change of a thing that K names. No record is altered after its creation.
type mergeable[K comparable, R any] interface {
	comparable
	storable
	id() K
	made() (node string, at time.Time)
	lives(now time.Time) bool // it still has an effect
	same(other R) bool        // both have the same effect
	// beats reports whether a change of this node that the bucket does not have yet replaces the bucket's record. The
	// rule of conflicts is in docs/fleet/faults.md.
	beats(stored R, now time.Time) bool
}

// entry is a node's knowledge of one thing.
type entry[R any] struct {
	record   R
	revision uint64 // of the bucket's record; 0: the bucket has none
	turn     uint64 // the last survey that found the record in force
	refused  bool   // the bucket has a newer record, which has not arrived yet
}

// ledger merges the changes of this node with those of a bucket. It has no I/O and no clock. The bucket's order
// decides, except for open: changes of this node that the bucket does not have yet.
type ledger[K comparable, R mergeable[K, R]] struct {
	node    string
	entries map[K]*entry[R]
	open    map[K]struct{}
	hasRoom func(now time.Time) bool // for a further entry
	follow  func(old, new R)         // an entry changes its record; old may be zero

	conflicts uint64 // changes that met another node's change of the same
	beyond    uint64 // changes without room
}

func newLedger[K comparable, R mergeable[K, R]](node string, hasRoom func(time.Time) bool,
	follow func(old, new R)) ledger[K, R] {
	return ledger[K, R]{
		node: node, entries: make(map[K]*entry[R]), open: make(map[K]struct{}), hasRoom: hasRoom, follow: follow,
	}
}

// put replaces the record of an entry, or adds the entry.
func (l *ledger[K, R]) put(r R) *entry[R] {
	e := l.entries[r.id()]
	if e == nil {
		e = new(entry[R])
		l.entries[r.id()] = e
	}
	old := e.record
	e.record = r
	l.follow(old, r)
	return e
}

// change puts a change of this node.
func (l *ledger[K, R]) change(r R) {
	l.put(r)
	l.open[r.id()] = struct{}{}
}

// forget forgets entries without effect.
func (l *ledger[K, R]) forget(now time.Time) {
	for k, e := range l.entries {
		if !e.record.lives(now) {
			var none R
			l.follow(e.record, none)
			delete(l.entries, k)
			delete(l.open, k)
		}
	}
}

// take merges a record of the bucket. It reports whether the record replaces the node's own.
func (l *ledger[K, R]) take(now time.Time, r R, revision uint64) bool {
	k := r.id()
	if !r.lives(now) {
		l.gone(now, k, revision)
		return false
	}
	e := l.entries[k]
	if e == nil {
		if !l.hasRoom(now) {
			l.beyond++
			return false
		}
		l.put(r).revision = revision
		return true
	}
	if revision <= e.revision {
		return false // written by this node
	}
	e.revision, e.refused = revision, false
	differs := !e.record.same(r)
	if _, open := l.open[k]; open && differs {
		l.conflicts++
		if e.record.beats(r, now) {
			return false
		}
	}
	delete(l.open, k)
	l.put(r)
	return differs
}

// gone says that the bucket has no valid record of a key: it has ended, or another program has changed it. A record of
// this node that still has an effect is written again. Revision 0 means that the bucket has forgotten the key.
func (l *ledger[K, R]) gone(now time.Time, k K, revision uint64) {
	e := l.entries[k]
	if e == nil || revision != 0 && revision <= e.revision {
		return
	}
	e.revision, e.refused = revision, false
	if e.record.lives(now) {
		l.open[k] = struct{}{}
	}
}

// writes returns a batch of this node's changes.
func (l *ledger[K, R]) writes() (all []write[R]) {
	for k := range l.open {
		if e := l.entries[k]; !e.refused && len(all) < batch {
			all = append(all, write[R]{record: e.record, revision: e.revision})
		}
	}
	return all
}

// written notes the bucket's answer to a change. The node may have changed it again meanwhile.
func (l *ledger[K, R]) written(w *write[R]) {
	k := w.record.id()
	e := l.entries[k]
	switch {
	case e == nil:
	case w.err != nil:
		e.refused = true // until another revision arrives
	case w.revision > e.revision: // else the reader was faster
		e.revision = w.revision
		if e.record == w.record {
			delete(l.open, k)
		}
	}
}

// begin starts a reading of the whole bucket, which may be a new one.
func (l *ledger[K, R]) begin() {
	l.beyond = 0
	for _, e := range l.entries {
		e.revision, e.refused = 0, false
	}
}

// end completes the reading. Records that the bucket lacks are written again.
func (l *ledger[K, R]) end(now time.Time) {
	for k, e := range l.entries {
		if e.revision == 0 && e.record.lives(now) {
			l.open[k] = struct{}{}
		}
	}
}

// later returns a time after the change that is replaced. So a node whose clock is late can change a record that it
// knows.
func later(now, replaced time.Time) time.Time {
	if now.After(replaced) {
		return now
	}
	return replaced.Add(1)
}
