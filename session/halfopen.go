package session

import "net/netip"

// waiting is the state that a Table keeps for a half-open session.
type waiting[T any] struct {
	entry      *Entry[T]
	proved     bool
	network    netip.Prefix
	prev, next *waiting[T] // in the queue of proved or of unproved sessions
}

// halfOpen holds a Table's half-open sessions, oldest first, in one queue for proved addresses and one for unproved
// ones.
type halfOpen[T any] struct {
	count            int
	unproved, proved queue[T]
	addresses        map[netip.Addr]int // sessions by address; at most one key per session
	networks         map[netip.Prefix]int
}

// room returns the reason why no further session may be half-open, or nil.
func (h *halfOpen[T]) room(l *Limits, client netip.Addr) error {
	client = client.Unmap()
	switch {
	case l.HalfOpenAddress > 0 && h.addresses[client] >= l.HalfOpenAddress:
		return ErrAddress
	case l.HalfOpenNetwork > 0 && h.networks[l.network(client)] >= l.HalfOpenNetwork:
		return ErrNetwork
	case h.count >= l.HalfOpen:
		return ErrHalfOpen
	}
	return nil
}

func (h *halfOpen[T]) add(e *Entry[T], l *Limits) {
	w := &waiting[T]{entry: e, network: l.network(e.Key.Client.Addr().Unmap())}
	e.waiting = w
	h.unproved.push(w)
	h.addresses[e.Key.Client.Addr().Unmap()]++
	h.networks[w.network]++
	h.count++
}

func (h *halfOpen[T]) prove(w *waiting[T]) {
	if !w.proved {
		h.unproved.remove(w)
		w.proved = true
		h.proved.push(w)
	}
}

func (h *halfOpen[T]) remove(e *Entry[T]) {
	w := e.waiting
	e.waiting = nil
	if w.proved {
		h.proved.remove(w)
	} else {
		h.unproved.remove(w)
	}
	less(h.addresses, e.Key.Client.Addr().Unmap())
	less(h.networks, w.network)
	h.count--
}

// less decrements a count, and deletes the key at zero.
func less[K comparable](counts map[K]int, k K) {
	if counts[k]--; counts[k] <= 0 {
		delete(counts, k)
	}
}

// queue is a list of half-open sessions, oldest first.
type queue[T any] struct{ first, last *waiting[T] }

func (q *queue[T]) push(w *waiting[T]) {
	w.prev, w.next = q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *queue[T]) remove(w *waiting[T]) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
}

// eldest returns the entry at the head, or nil.
func (q *queue[T]) eldest() *Entry[T] {
	if q.first == nil {
		return nil
	}
	return q.first.entry
}
