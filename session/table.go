// Package session is the table of a Relay's sessions: found by the client's address, bounded in number, and woken by
// deadline. It knows nothing of a session's content; its values belong to the owner. Start with Table.
package session

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/linked"
)

// Errors of Add.
var (
	ErrFull     = errors.New("session table full")                         // Limits.Sessions are open
	ErrHalfOpen = errors.New("too many half-open sessions")                // Limits.HalfOpen are not established yet
	ErrAddress  = errors.New("too many half-open sessions of its address") // Limits.HalfOpenAddress of the same address
	ErrNetwork  = errors.New("too many half-open sessions of its network") // Limits.HalfOpenNetwork of the same network

	ErrAddressFull = errors.New("too many sessions of its address") // Limits.Address of the same address
	ErrNetworkFull = errors.New("too many sessions of its network") // Limits.Network of the same network
)

// Limits bound a Table.
type Limits struct {
	Sessions int // open at once, half-open ones included
	HalfOpen int // open at once and not established
	// Half-open sessions from one address and from one network; 0 means no limit.
	// Those with proof of their address do not count.
	HalfOpenAddress, HalfOpenNetwork int
	// Sessions of one address and of one network (package source) in all Tables that share Places; 0 means no limit.
	Address, Network int
}

// Key names a session: its listener and the client's address.
type Key struct {
	Listener int
	Client   netip.AddrPort
}

// Table holds the sessions of one Relay. It is not safe for concurrent use.
type Table[T any] struct {
	limits   Limits
	places   *Places
	byKey    map[Key]*Entry[T]
	halfOpen halfOpen[T]
	all      linked.List[Entry[T], *Entry[T]] // oldest first, so that every run walks them in the same order
	wheel    wheel[T]
	walks    []*Walk[T] // under way
	visited  uint64     // by walks
}

// Entry is one session's place in a Table. Value belongs to the owner.
type Entry[T any] struct {
	Key   Key
	Value T

	waiting                *waiting[T]   // nil once established
	due                    int64         // tick at which the wheel looks at the entry; 0: not on the wheel
	deadline               time.Duration // from the last Schedule, since the wheel's start; may be later than due
	wheelPrev, wheelNext   *Entry[T]
	linked.Links[Entry[T]] // in the order of all, which only the Table changes
}

// NewTable returns an empty table whose time begins at now.
func NewTable[T any](limits Limits, now time.Time) *Table[T] {
	return &Table[T]{
		limits: limits, places: NewPlaces(), byKey: make(map[Key]*Entry[T]), wheel: wheel[T]{start: now},
		halfOpen: halfOpen[T]{addresses: make(map[netip.Prefix]*household[T]), networks: make(map[netip.Prefix]int)},
	}
}

// Share makes the table count its sessions together with other tables. It precedes the first Add.
func (t *Table[T]) Share(p *Places) { t.places = p }

// Limit replaces the limits. Sessions beyond the new limits stay.
func (t *Table[T]) Limit(l Limits) { t.limits = l }

// Get returns the session of a key, or nil.
func (t *Table[T]) Get(k Key) *Entry[T] { return t.byKey[k] }

// Room returns the reason why Add would refuse a session of a client, or nil. The limits of the client's own source
// come first, since ending another session would not help it.
func (t *Table[T]) Room(client netip.Addr) error {
	if err := t.places.room(&t.limits, client); err != nil {
		return err
	}
	return t.roomHere(client)
}

// roomHere is Room without the places that tables share.
func (t *Table[T]) roomHere(client netip.Addr) error {
	err := t.halfOpen.room(&t.limits, client)
	if (err == nil || err == ErrHalfOpen) && len(t.byKey) >= t.limits.Sessions {
		return ErrFull
	}
	return err
}

// RoomToEnter returns the reason why a session that another Table has established has no room, or nil. more is the
// number of sessions that enter before it. Half-open sessions do not count, since a flood may have all of their places.
func (t *Table[T]) RoomToEnter(client netip.Addr, more int) error {
	if err := t.places.room(&t.limits, client); err != nil {
		return err
	}
	if len(t.byKey)+more >= t.limits.Sessions {
		return ErrFull
	}
	return nil
}

// Eldest returns the half-open session that has waited longest, among proved or among unproved addresses, or nil.
func (t *Table[T]) Eldest(proved bool) *Entry[T] {
	if proved {
		return t.halfOpen.proved.eldest()
	}
	return t.halfOpen.unproved.eldest()
}

// Offer lets an unproved half-open session make room for others of its address, once.
func (t *Table[T]) Offer(e *Entry[T]) {
	if e.waiting != nil {
		t.halfOpen.offer(e.waiting)
	}
}

// Spare returns the oldest session of an address that Offer has named and that is still half-open, or nil.
func (t *Table[T]) Spare(client netip.Addr) *Entry[T] { return t.halfOpen.spareOf(client) }

// Add opens a half-open session. The key must not be in use.
func (t *Table[T]) Add(k Key, value T) (*Entry[T], error) {
	if err := t.roomHere(k.Client.Addr()); err != nil {
		return nil, err
	}
	if err := t.places.take(&t.limits, k.Client.Addr()); err != nil {
		return nil, err
	}
	e := &Entry[T]{Value: value}
	t.insert(e, k)
	t.halfOpen.add(e)
	return e, nil
}

// Enter adds a session regardless of the limits: it was in another Table. The caller has set the entry's Value. The key
// must not be in use.
func (t *Table[T]) Enter(e *Entry[T], k Key, established bool) {
	_ = t.places.take(&Limits{}, k.Client.Addr()) // without limits there is room
	t.insert(e, k)
	if !established {
		t.halfOpen.add(e)
	}
}

// MoveToEnd puts a session behind all others in their order. No walk may be under way.
func (t *Table[T]) MoveToEnd(e *Entry[T]) {
	t.all.Remove(e)
	t.all.Push(e)
}

func (t *Table[T]) insert(e *Entry[T], k Key) {
	e.Key = k
	t.all.Push(e)
	t.byKey[k] = e
}

// IsEstablished reports whether a session is no longer half-open.
func (t *Table[T]) IsEstablished(e *Entry[T]) bool { return e.waiting == nil }

// Prove records that a session's client has proved its address.
func (t *Table[T]) Prove(e *Entry[T]) {
	if e.waiting != nil {
		t.halfOpen.prove(e.waiting)
	}
}

// Establish ends a session's half-open state.
func (t *Table[T]) Establish(e *Entry[T]) {
	if e.waiting != nil {
		t.halfOpen.remove(e)
	}
}

// Remove deletes a session.
func (t *Table[T]) Remove(e *Entry[T]) {
	t.Establish(e)
	t.leave(e)
	t.wheel.disarm(e)
	delete(t.byKey, e.Key)
	t.places.leave(e.Key.Client.Addr())
	t.all.Remove(e)
	// Next stays set: a walk may remove the entry on which it stands. Nothing else refers to the entry.
	e.Prev = nil
}

// Schedule sets the time at which a session wakes; the zero time means never. Moving a deadline later is free: the
// wheel looks at the session at the earlier time and puts it back.
func (t *Table[T]) Schedule(e *Entry[T], now, at time.Time) {
	e.deadline = at.Sub(t.wheel.start)
	switch {
	case at.IsZero():
		t.wheel.disarm(e)
	case e.due == 0 || at.Before(t.wheel.timeOf(e.due)):
		t.wheel.arm(e, now, at)
	}
}

// Due returns the next session whose deadline has passed, or nil. The owner must Schedule it again.
func (t *Table[T]) Due(now time.Time) *Entry[T] {
	for {
		e := t.wheel.pop(now)
		if e == nil || e.deadline <= now.Sub(t.wheel.start) {
			return e
		}
		t.wheel.arm(e, now, t.wheel.start.Add(e.deadline))
	}
}

// NextTimeout returns the time of the next call of Due; zero means never.
func (t *Table[T]) NextTimeout() time.Time {
	next, ok := t.wheel.next()
	if !ok {
		return time.Time{}
	}
	return t.wheel.timeOf(next)
}

// Len returns the number of sessions.
func (t *Table[T]) Len() int { return len(t.byKey) }

// Timers returns the number of sessions that will wake.
func (t *Table[T]) Timers() int { return t.wheel.armed }

// HalfOpen returns the number of sessions that are not established.
func (t *Table[T]) HalfOpen() int { return t.halfOpen.count }

// All yields every session, oldest first. The loop may remove the current session. A Walk does the same in steps.
func (t *Table[T]) All(yield func(*Entry[T]) bool) {
	for e := t.all.First; e != nil; e = e.Next {
		t.visited++
		if !yield(e) {
			return
		}
	}
}

// Backward yields every session, youngest first. The loop must not remove any.
func (t *Table[T]) Backward(yield func(*Entry[T]) bool) {
	for e := t.all.Last; e != nil; e = e.Prev {
		t.visited++
		if !yield(e) {
			return
		}
	}
}

// Walk visits the entries that a Table has at the start of the walk, oldest first. Its owner may pause it and change
// the table meanwhile: the Walk leaves out entries that are removed before their turn.
type Walk[T any] struct {
	table      *Table[T]
	next, last *Entry[T] // nil at the end
}

// Walk begins a walk. It must be walked to its end, or stopped.
func (t *Table[T]) Walk() *Walk[T] {
	w := &Walk[T]{table: t, next: t.all.First, last: t.all.Last}
	if t.all.First != nil {
		t.walks = append(t.walks, w)
	}
	return w
}

// Next returns the next entry, or nil at the end. The owner may remove it.
func (w *Walk[T]) Next() *Entry[T] {
	e := w.next
	if e == nil {
		return nil
	}
	w.table.visited++
	w.pass(e)
	return e
}

// Ended reports whether no entry is left.
func (w *Walk[T]) Ended() bool { return w.next == nil }

// Stop ends the walk early.
func (w *Walk[T]) Stop() {
	w.next, w.last = nil, nil
	w.table.walks = slices.DeleteFunc(w.table.walks, func(other *Walk[T]) bool { return other == w })
}

// pass moves the walk beyond its next entry.
func (w *Walk[T]) pass(e *Entry[T]) {
	if e == w.last {
		w.Stop()
		return
	}
	w.next = e.Next
}

// leave takes an entry that is about to be removed out of the way of all walks.
func (t *Table[T]) leave(e *Entry[T]) {
	for _, w := range slices.Backward(t.walks) { // a walk may end here
		switch {
		case w.next == e:
			w.pass(e)
		case w.last == e:
			w.last = e.Prev
		}
	}
}

// Visited returns how many entries all walks have visited so far, including those of All.
func (t *Table[T]) Visited() uint64 { return t.visited }

// ID names a session. No other session of the process ever gets the same ID. It is written in base 36, so that
// it stays short.
type ID uint64

// ParseID parses the form that String writes.
func ParseID(text string) (ID, error) {
	id, err := strconv.ParseUint(text, 36, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("session %q: want an ID as %q shows it", text, "sessions list")
	}
	return ID(id), nil
}

// String returns the ID in base 36, as logs and commands show it.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 36) }

// Shard returns the index of the session's Relay among all Relays.
func (id ID) Shard(shards int) int { return int(uint64(id) % uint64(shards)) }
