package ratelimit

import (
	"net/netip"
	"time"
)

// Window lets at most n events pass in any span of a given length, wherever the span begins. A server that counts by
// its own clock never finds the limit exceeded. A Limiter cannot promise that and use the whole limit. A Window
// remembers the times of the last n events. It is not safe for concurrent use.
type Window struct {
	span time.Duration
	born time.Time
	last []time.Duration // times of the last events, since born; a ring
	next int             // index of the oldest one
	new  int             // events counted since the last Sent, at most len(last)
}

// NewWindow returns a Window that passes n events, at least 1, in any span.
func NewWindow(n int, span time.Duration, now time.Time) *Window {
	w := &Window{span: span, born: now, last: make([]time.Duration, max(n, 1))}
	for i := range w.last {
		w.last[i] = -span
	}
	return w
}

// Is reports whether the Window passes n events in a span.
func (w *Window) Is(n int, span time.Duration) bool { return len(w.last) == n && w.span == span }

// Free reports whether an event may pass now.
func (w *Window) Free(now time.Time) bool { return now.Sub(w.born)-w.last[w.next] >= w.span }

// Idle reports whether no event has passed for a span. Such a Window is like a new one.
func (w *Window) Idle(now time.Time) bool {
	return now.Sub(w.born)-w.last[(w.next+len(w.last)-1)%len(w.last)] >= w.span
}

// Count counts an event that passes now. The Window must be Free.
func (w *Window) Count(now time.Time) {
	w.last[w.next] = now.Sub(w.born)
	if w.next++; w.next == len(w.last) {
		w.next = 0
	}
	w.new = min(w.new+1, len(w.last))
}

// Sent sets the time of the events counted since the last Sent to now. A caller that counts events early and sends them
// later, all at once, must call it: otherwise the Window takes the time between for elapsed.
func (w *Window) Sent(now time.Time) {
	at := now.Sub(w.born)
	for i := 1; i <= w.new; i++ {
		w.last[(w.next-i+len(w.last))%len(w.last)] = at
	}
	w.new = 0
}

// Next returns the time at which an event may pass again.
func (w *Window) Next() time.Time { return w.born.Add(w.last[w.next] + w.span) }

// Times returns the times of the last events, oldest first. The times of a new Window lie a span back.
func (w *Window) Times() []time.Time {
	all := make([]time.Time, 0, len(w.last))
	for i := range w.last {
		all = append(all, w.born.Add(w.last[(w.next+i)%len(w.last)]))
	}
	return all
}

// Recall sets the times of the last events, oldest first. If there are more than the Window remembers, the youngest
// count.
func (w *Window) Recall(times []time.Time) {
	for _, at := range times {
		w.Count(at)
	}
	w.new = 0
}

// seenBits is the number of bits in each half of a SeenFilter: 512 KiB.
const seenBits = 1 << 22

// seenTime is the least time for which a source is remembered. Clients repeat a request about once a second.
const seenTime = 2 * time.Second

// SeenFilter is a rotating Bloom filter of recent sources, 1 MiB. False positives grow with load: 6 % at 300,000 new
// sources per second. Within seenTime there are no false negatives. Use NewSeenFilter.
type SeenFilter struct {
	seed       uint64
	young, old *bloom
	rotated    time.Duration // when young began; old began seenTime before
}

// bloom is a Bloom filter with two bits for each source.
type bloom [seenBits / 64]uint64

// NewSeenFilter returns an empty SeenFilter. It allocates its memory on first use. The seed is as in NewHashedBuckets.
func NewSeenFilter(seed uint64) *SeenFilter { return &SeenFilter{seed: seed} }

// Seen reports whether the source was seen before, at most 2*seenTime ago, and remembers the source.
func (a *SeenFilter) Seen(now time.Duration, from netip.AddrPort) bool {
	a.rotate(now)
	h := Hash(from.Addr(), from.Port(), a.seed)
	one, other := uint32(h)%seenBits, uint32(h>>32)%seenBits
	again := a.young.has(one, other) || a.old.has(one, other)
	a.young.add(one, other)
	return again
}

// rotate drops the sources that are too old.
func (a *SeenFilter) rotate(now time.Duration) {
	switch age := now - a.rotated; {
	case a.young == nil:
		a.young, a.old, a.rotated = new(bloom), new(bloom), now
	case age >= 2*seenTime:
		clear(a.young[:])
		clear(a.old[:])
		a.rotated = now
	case age >= seenTime:
		a.young, a.old = a.old, a.young
		clear(a.young[:])
		a.rotated += seenTime
	}
}

func (b *bloom) has(one, other uint32) bool {
	return b[one/64]>>(one%64)&1 != 0 && b[other/64]>>(other%64)&1 != 0
}

func (b *bloom) add(one, other uint32) {
	b[one/64] |= 1 << (one % 64)
	b[other/64] |= 1 << (other % 64)
}
