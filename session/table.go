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
	ErrFull     = errors.New("session table full")          // Limits.Sessions are open
	ErrHalfOpen = errors.New("too many half-open sessions") // Limits.HalfOpen have not been established yet
)

// Limits bound a Table.
type Limits struct {
	Sessions int // open at once, half-open ones included
	HalfOpen int // open at once that have not been established
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
	halfOpen int
	first    *Entry[T] // all entries, oldest first, so that walking them is the same in every run
	last     *Entry[T]
	wheel    wheel[T]
}

// Entry is one session's place in a Table. Value is the owner's.
type Entry[T any] struct {
	Key   Key
	Value T

	established          bool
	armed                bool
	due                  int64     // tick, while armed
	deadline             time.Time // what Schedule last asked for; may be later than due
	wheelPrev, wheelNext *Entry[T]
	prev, next           *Entry[T]
}

// NewTable returns an empty table whose time begins at now.
func NewTable[T any](limits Limits, now time.Time) *Table[T] {
	return &Table[T]{limits: limits, byKey: make(map[Key]*Entry[T]), wheel: wheel[T]{start: now}}
}

// Limit replaces the limits. Sessions beyond them stay.
func (t *Table[T]) Limit(l Limits) { t.limits = l }

// Get returns the session of a key, or nil.
func (t *Table[T]) Get(k Key) *Entry[T] { return t.byKey[k] }

// Room reports why a further session would not be added, or nil.
func (t *Table[T]) Room() error {
	switch {
	case len(t.byKey) >= t.limits.Sessions:
		return ErrFull
	case t.halfOpen >= t.limits.HalfOpen:
		return ErrHalfOpen
	}
	return nil
}

// Add opens a half-open session. The key must not be in use.
func (t *Table[T]) Add(k Key, value T) (*Entry[T], error) {
	if err := t.Room(); err != nil {
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
	t.halfOpen++
	return e, nil
}

// Establish takes a session out of the half-open ones.
func (t *Table[T]) Establish(e *Entry[T]) {
	if !e.established {
		e.established = true
		t.halfOpen--
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
	e.deadline = at
	switch {
	case at.IsZero():
		t.wheel.disarm(e)
	case !e.armed || at.Before(t.wheel.timeOf(e.due)):
		t.wheel.arm(e, now, at)
	}
}

// Due returns the next session whose deadline has come, or nil. Its owner must Schedule it again.
func (t *Table[T]) Due(now time.Time) *Entry[T] {
	for {
		e := t.wheel.pop(now)
		if e == nil || !e.deadline.After(now) {
			return e
		}
		t.wheel.arm(e, now, e.deadline)
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
func (t *Table[T]) HalfOpen() int { return t.halfOpen }

// All yields every session, oldest first. The session at hand may be removed meanwhile.
func (t *Table[T]) All(yield func(*Entry[T]) bool) {
	for e := t.first; e != nil; e = e.next {
		if !yield(e) {
			return
		}
	}
}
