package session

import "net/netip"

// waiting is what a Table keeps of a session as long as it is half-open.
type waiting[T any] struct {
	entry      *Entry[T]
	proved     bool
	network    netip.Prefix
	prev, next *waiting[T] // of the same kind: proved or not
}

// halfOpen are the sessions of a Table that are not established, apart from the others: those that have not proved their
// address and those that have, oldest first.
type halfOpen[T any] struct {
	count            int
	unproved, proved queue[T]
	addresses        map[netip.Addr]int // how many of each; as many keys as sessions at most
	networks         map[netip.Prefix]int
}

// room reports why no further session may be half-open, or nil.
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

// less counts one down, and forgets what has none left.
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

// eldest is the entry at the head, or nil.
func (q *queue[T]) eldest() *Entry[T] {
	if q.first == nil {
		return nil
	}
	return q.first.entry
}
