package session

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"

	"tidegate/internal/linked"
	"tidegate/internal/source"
)

// waiting is the state that a Table keeps for a half-open session.
type waiting[T any] struct {
	entry                    *Entry[T]
	proved                   bool
	network                  netip.Prefix
	linked.Links[waiting[T]] // in the queue of proved or of unproved sessions
}

// halfOpen holds a Table's half-open sessions, oldest first, in one queue for proved addresses and one for unproved
// ones.
type halfOpen[T any] struct {
	count            int
	unproved, proved queue[T]
	addresses        map[netip.Prefix]*household[T] // of the unproved ones; at most one key per session
	networks         map[netip.Prefix]int           // unproved sessions
}

// household has the unproved half-open sessions of an address.
type household[T any] struct {
	count int
	// spare are sessions that may make room for others of the address, oldest first. At most count of them have not
	// left, and at most as many have.
	spare []*waiting[T]
}

// countOf returns the number of an address's sessions.
func (h *halfOpen[T]) countOf(client netip.Addr) int {
	if s := h.addresses[source.Of(client).Address()]; s != nil {
		return s.count
	}
	return 0
}

// room returns the reason why no further session may be half-open, or nil.
func (h *halfOpen[T]) room(l *Limits, client netip.Addr) error {
	switch {
	case l.HalfOpenAddress > 0 && h.countOf(client) >= l.HalfOpenAddress:
		return ErrAddress
	case l.HalfOpenNetwork > 0 && h.networks[source.Of(client).Network()] >= l.HalfOpenNetwork:
		return ErrNetwork
	case h.count >= l.HalfOpen:
		return ErrHalfOpen
	}
	return nil
}

func (h *halfOpen[T]) add(e *Entry[T]) {
	at := source.Of(e.Key.Client.Addr())
	w := &waiting[T]{entry: e, network: at.Network()}
	e.waiting = w
	h.unproved.Push(w)
	s := h.addresses[at.Address()]
	if s == nil {
		s = new(household[T])
		h.addresses[at.Address()] = s
	}
	s.count++
	h.networks[w.network]++
	h.count++
}

// leave stops counting a session at its source.
func (h *halfOpen[T]) leave(w *waiting[T]) {
	address := w.entry.address()
	if s := h.addresses[address]; s.count > 1 {
		s.count--
	} else {
		delete(h.addresses, address)
	}
	less(h.networks, w.network)
}

func (e *Entry[T]) address() netip.Prefix { return source.Of(e.Key.Client.Addr()).Address() }

// isHere reports whether a session still counts at its source.
func (w *waiting[T]) isHere() bool { return w.entry.waiting == w && !w.proved }

// offer marks a session as one that may make room.
func (h *halfOpen[T]) offer(w *waiting[T]) {
	s := h.addresses[w.entry.address()]
	if w.proved || s == nil {
		return
	}
	if len(s.spare) > 2*s.count {
		s.spare = slices.DeleteFunc(s.spare, func(w *waiting[T]) bool { return !w.isHere() })
	}
	s.spare = append(s.spare, w)
}

// spareOf returns the oldest session of an address that may make room, or nil.
func (h *halfOpen[T]) spareOf(client netip.Addr) *Entry[T] {
	s := h.addresses[source.Of(client).Address()]
	for s != nil && len(s.spare) > 0 {
		if s.spare[0].isHere() {
			return s.spare[0].entry
		}
		s.spare = slices.Delete(s.spare, 0, 1)
	}
	return nil
}

func (h *halfOpen[T]) prove(w *waiting[T]) {
	if !w.proved {
		h.unproved.Remove(w)
		h.leave(w) // a proved client is no flood: only the sessions of its address bound it
		w.proved = true
		h.proved.Push(w)
	}
}

func (h *halfOpen[T]) remove(e *Entry[T]) {
	w := e.waiting
	e.waiting = nil
	if w.proved {
		h.proved.Remove(w)
	} else {
		h.unproved.Remove(w)
		h.leave(w)
	}
	h.count--
}

// less decrements a count, and deletes the key at zero.
func less[K comparable, N int | int32](counts map[K]N, k K) {
	if counts[k]--; counts[k] <= 0 {
		delete(counts, k)
	}
}

// queue is a list of half-open sessions, oldest first.
type queue[T any] struct {
	linked.List[waiting[T], *waiting[T]]
}

// eldest returns the entry at the head, or nil.
func (q *queue[T]) eldest() *Entry[T] {
	if q.First == nil {
		return nil
	}
	return q.First.entry
}

// Places counts the sessions of each address and of each network. The Tables of all loops share it, because the kernel
// spreads the clients of one address over the loops. It has at most one key per session.
type Places struct {
	seed   maphash.Seed
	shards [placeShards]placeShard
}

// placeShards is the number of locks. Each is held for two look-ups.
const placeShards = 64

type placeShard struct {
	mu                  sync.Mutex
	addresses, networks map[uint64]int32 // by source.Key
}

// NewPlaces returns Places without sessions.
func NewPlaces() *Places {
	p := &Places{seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].addresses, p.shards[i].networks = make(map[uint64]int32), make(map[uint64]int32)
	}
	return p
}

// place is a client as Places count it.
type place struct{ address, network uint64 }

func placeOf(client netip.Addr) place {
	of := source.Of(client)
	return place{source.Key(of.Address()), source.Key(of.Network())}
}

func (p *Places) shardOf(at place) *placeShard {
	return &p.shards[maphash.Comparable(p.seed, at.network)%placeShards]
}

// room returns the reason why a client may have no further session, or nil.
func (p *Places) room(l *Limits, client netip.Addr) error {
	if l.Address == 0 && l.Network == 0 {
		return nil
	}
	at := placeOf(client)
	s := p.shardOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room(l, at)
}

func (s *placeShard) room(l *Limits, at place) error {
	switch {
	case l.Address > 0 && int(s.addresses[at.address]) >= l.Address:
		return ErrAddressFull
	case l.Network > 0 && int(s.networks[at.network]) >= l.Network:
		return ErrNetworkFull
	}
	return nil
}

// take counts a session, or returns the reason why the client may have no further one.
func (p *Places) take(l *Limits, client netip.Addr) error {
	at := placeOf(client)
	s := p.shardOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(l, at); err != nil {
		return err
	}
	s.addresses[at.address]++
	s.networks[at.network]++
	return nil
}

// Len returns the number of addresses and networks with sessions.
func (p *Places) Len() (n int) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		n += len(s.addresses) + len(s.networks)
		s.mu.Unlock()
	}
	return n
}

// leave stops counting a session.
func (p *Places) leave(client netip.Addr) {
	at := placeOf(client)
	s := p.shardOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	less(s.addresses, at.address)
	less(s.networks, at.network)
}
