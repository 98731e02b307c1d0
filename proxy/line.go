package proxy

// line is sessions that wait, first come first served. The zero value is empty. (It would be a fifo, but for Go 1.26,
// whose compiler does not survive a pair that leads to a generic type of pairs.)
type line struct {
	now, later []*entry
	at         int // the first of now that is left
}

func (l *line) len() int { return len(l.now) - l.at + len(l.later) }

func (l *line) push(e *entry) { l.later = append(l.later, e) }

// popIf takes the first that a condition still holds for, or returns nil. The others before it are forgotten.
func (l *line) popIf(holds func(*session) bool) *entry {
	for {
		if e := l.pop(); e == nil || holds(&e.Value) {
			return e
		}
	}
}

// back puts the session back that pop has just taken: it is the first again.
func (l *line) back(e *entry) {
	l.at--
	l.now[l.at] = e
}

// pop takes the first, or returns nil.
func (l *line) pop() *entry {
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
