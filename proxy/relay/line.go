package relay

import "slices"

// line is a queue of sessions, first come, first served. The zero value is empty. A fifo would do, but the compiler
// of Go 1.26 crashes on an entry that leads to a generic type of entries.
type line struct {
	now, later []*Entry
	at         int // index of the first session that is left in now
}

func (l *line) len() int { return len(l.now) - l.at + len(l.later) }

func (l *line) push(e *Entry) { l.later = append(l.later, e) }

// all returns the sessions, first come first. It may share their memory.
func (l *line) all() []*Entry { return slices.Concat(l.now[l.at:], l.later) }

// popIf removes and returns the first session for which holds is true, or nil. It also removes the sessions before
// it.
func (l *line) popIf(holds func(*link) bool) *Entry {
	for {
		if e := l.pop(); e == nil || holds(&e.Value) {
			return e
		}
	}
}

// back returns the session that pop has just taken to the head of the line.
func (l *line) back(e *Entry) {
	l.at--
	l.now[l.at] = e
}

// pop removes and returns the first session, or nil.
func (l *line) pop() *Entry {
	if l.at == len(l.now) {
		l.now, l.later, l.at = l.later, l.now[:0], 0
	}
	if len(l.now) == 0 {
		return nil
	}
	e := l.now[l.at]
	l.now[l.at] = nil
	l.at++
	return e
}
