// Package session is the table of a Relay's sessions: found by the client's address, bounded in number, and woken by
// deadline. It knows nothing of what a session does; its values are the owner's. Start with Table.
package session

import (
	"errors"
	"net/netip"
	"time"
)

// Errors of Add.
var (
	ErrFull     = errors.New("session table full")                         // Limits.Sessions are open
	ErrHalfOpen = errors.New("too many half-open sessions")                // Limits.HalfOpen have not been established yet
	ErrAddress  = errors.New("too many half-open sessions of its address") // and Limits.HalfOpenAddress of those
	ErrNetwork  = errors.New("too many half-open sessions of its network") // and Limits.HalfOpenNetwork of those
)

// Limits bound a Table.
type Limits struct {
	Sessions int // open at once, half-open ones included
	HalfOpen int // open at once that have not been established
	// Of those, from one address and from one network; 0 bounds nothing.
	HalfOpenAddress, HalfOpenNetwork int
	NetworkV4, NetworkV6             int // bits of a network's addresses
}

// network is the network of an address that is no IPv4 within IPv6.
func (l *Limits) network(a netip.Addr) netip.Prefix {
	bits := l.NetworkV6
	if a.Is4() {
		bits = l.NetworkV4
	}
	p, _ := a.Prefix(bits) // zero where there are not so many bits: all are of one network then
	return p
}

// Key names a session: the listener it came by, and the client's address.
type Key struct {
	Listener int
	Client   netip.AddrPort
}

// Table holds the sessions of one Relay. It is not safe for concurrent use.
type Table[T any] struct {
	limits   Limits
	byKey    map[Key]*Entry[T]
	halfOpen halfOpen[T]
	first    *Entry[T] // all entries, oldest first, so that walking them is the same in every run
	last     *Entry[T]
	wheel    wheel[T]
}

// Entry is one session's place in a Table. Value is the owner's.
type Entry[T any] struct {
	Key   Key
	Value T

	waiting              *waiting[T]   // nil once established
	due                  int64         // tick by which it is on the wheel; 0 while it is not
	deadline             time.Duration // since the wheel's start: what Schedule last asked for; may be later than due
	wheelPrev, wheelNext *Entry[T]
	prev, next           *Entry[T]
}

// NewTable returns an empty table whose time begins at now.
func NewTable[T any](limits Limits, now time.Time) *Table[T] {
	return &Table[T]{
		limits: limits, byKey: make(map[Key]*Entry[T]), wheel: wheel[T]{start: now},
		halfOpen: halfOpen[T]{addresses: make(map[netip.Addr]int), networks: make(map[netip.Prefix]int)},
	}
}

// Limit replaces the limits. Sessions beyond them stay.
func (t *Table[T]) Limit(l Limits) { t.limits = l }

// Get returns the session of a key, or nil.
func (t *Table[T]) Get(k Key) *Entry[T] { return t.byKey[k] }

// Room reports why a further session of a client would not be added, or nil. Its own source's limits come first: no
// other session's end would help it.
func (t *Table[T]) Room(client netip.Addr) error {
	err := t.halfOpen.room(&t.limits, client)
	if (err == nil || err == ErrHalfOpen) && len(t.byKey) >= t.limits.Sessions {
		return ErrFull
	}
	return err
}

// Eldest is the half-open session that has waited longest, of those that have proved their address or of the others; nil
// if there is none.
func (t *Table[T]) Eldest(proved bool) *Entry[T] {
	if proved {
		return t.halfOpen.proved.eldest()
	}
	return t.halfOpen.unproved.eldest()
}

// Add opens a half-open session. The key must not be in use.
func (t *Table[T]) Add(k Key, value T) (*Entry[T], error) {
	if err := t.Room(k.Client.Addr()); err != nil {
		return nil, err
	}
	e := &Entry[T]{Key: k, Value: value, prev: t.last}
	if t.last == nil {
		t.first = e
	} else {
		t.last.next = e
	}
	t.last = e
	t.byKey[k] = e
	t.halfOpen.add(e, &t.limits)
	return e, nil
}

// Prove notes that a session's client has proved its address.
func (t *Table[T]) Prove(e *Entry[T]) {
	if e.waiting != nil {
		t.halfOpen.prove(e.waiting)
	}
}

// Establish takes a session out of the half-open ones.
func (t *Table[T]) Establish(e *Entry[T]) {
	if e.waiting != nil {
		t.halfOpen.remove(e)
	}
}

// Remove forgets a session.
func (t *Table[T]) Remove(e *Entry[T]) {
	t.Establish(e)
	t.wheel.disarm(e)
	delete(t.byKey, e.Key)
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		t.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		t.last = e.prev
	}
	// next stays, so that a walk that removes the entry it stands on goes on; nothing else leads here any more.
	e.prev = nil
}

// Schedule says when a session wants to be woken; the zero time means never. Moving a deadline later costs nothing:
// the session is looked at when the earlier one fires, and put back.
func (t *Table[T]) Schedule(e *Entry[T], now, at time.Time) {
	e.deadline = at.Sub(t.wheel.start)
	switch {
	case at.IsZero():
		t.wheel.disarm(e)
	case e.due == 0 || at.Before(t.wheel.timeOf(e.due)):
		t.wheel.arm(e, now, at)
	}
}

// Due returns the next session whose deadline has come, or nil. Its owner must Schedule it again.
func (t *Table[T]) Due(now time.Time) *Entry[T] {
	for {
		e := t.wheel.pop(now)
		if e == nil || e.deadline <= now.Sub(t.wheel.start) {
			return e
		}
		t.wheel.arm(e, now, t.wheel.start.Add(e.deadline))
	}
}

// NextTimeout is when Due wants to be called next; zero means never.
func (t *Table[T]) NextTimeout() time.Time {
	next, ok := t.wheel.next()
	if !ok {
		return time.Time{}
	}
	return t.wheel.timeOf(next)
}

// Len is the number of sessions.
func (t *Table[T]) Len() int { return len(t.byKey) }

// HalfOpen is the number of sessions that are not established.
func (t *Table[T]) HalfOpen() int { return t.halfOpen.count }

// All yields every session, oldest first. The session at hand may be removed meanwhile.
func (t *Table[T]) All(yield func(*Entry[T]) bool) {
	for e := t.first; e != nil; e = e.next {
		if !yield(e) {
			return
		}
	}
}
