package ratelimit

import "time"

// Window lets at most so many events pass in any span of some length, wherever the span begins: what a server that counts
// by its own clock can never find exceeded. A Limiter cannot promise that and use the whole of it. It remembers the time
// of each event that still counts. Not safe for concurrent use.
type Window struct {
	span time.Duration
	born time.Time
	last []time.Duration // when the last events passed, since born; a ring
	next int             // the oldest of them
	new  int             // the youngest so many have been counted since Sent
}

// NewWindow returns a Window through which n events pass in any span, n at least 1.
func NewWindow(n int, span time.Duration, now time.Time) *Window {
	w := &Window{span: span, born: now, last: make([]time.Duration, max(n, 1))}
	for i := range w.last {
		w.last[i] = -span
	}
	return w
}

// Is reports whether the Window is one of n events in a span.
func (w *Window) Is(n int, span time.Duration) bool { return len(w.last) == n && w.span == span }

// Free reports whether an event may pass now.
func (w *Window) Free(now time.Time) bool { return now.Sub(w.born)-w.last[w.next] >= w.span }

// Count counts an event that passes now, which must be Free.
func (w *Window) Count(now time.Time) {
	w.last[w.next] = now.Sub(w.born)
	if w.next++; w.next == len(w.last) {
		w.next = 0
	}
	w.new = min(w.new+1, len(w.last))
}

// Sent tells that the events counted since the last Sent may have taken until now: whoever counts them, and lets them happen
// later, all at once, must not take the time between for gone.
func (w *Window) Sent(now time.Time) {
	at := now.Sub(w.born)
	for i := 1; i <= w.new; i++ {
		w.last[(w.next-i+len(w.last))%len(w.last)] = at
	}
	w.new = 0
}

// Next is when an event may pass again.
func (w *Window) Next() time.Time { return w.born.Add(w.last[w.next] + w.span) }
