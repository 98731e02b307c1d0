package relay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/record"
	"tidegate/proxy/relay/saved"
)

const (
	// ArrivalTime is how long a session waits for its client's first datagram at another Server.
	ArrivalTime = 30 * time.Second
	// addressTime is how long an arriving session tries to get its old source address. Where it has just left, that
	// address is free a moment later.
	addressTime = time.Second
	// maxArrivals bounds the bytes of all waiting sessions.
	maxArrivals = 256 << 20
)

// Arrivals are sessions from another Server whose clients have not been heard yet. Only the client's datagram shows
// which loop the kernel has chosen for it. It is safe for concurrent use.
type Arrivals struct {
	count   atomic.Int32 // so that loops need no lock for strangers
	mu      sync.Mutex
	waiting map[arrivalKey]*Arrival
	bytes   int
}

// arrivalKey is what a client's datagram shows: its address or, at an edge, the name of its join.
type arrivalKey struct {
	listener string
	client   netip.AddrPort
	name     string
}

// Arrival is a session that waits for its client.
type Arrival struct {
	saved.Travel
	session saved.Session
	size    int
	age     time.Duration // since the session was saved, when it was read
	read    time.Time
	returns bool // its old node takes it back if it would be lost here
}

func (a *Arrival) key() arrivalKey { return arrivalKey{a.Listener, a.Client, ""} }

// keys returns all keys of a session, the one of its table first. A NetherNet client has several addresses, and may
// come from a new one.
func (a *Arrival) keys() []arrivalKey {
	all := []arrivalKey{a.key()}
	if g := a.session.Edge; g != nil {
		for _, at := range g.Sources[:min(len(g.Sources), nethernet.MaxSources)] {
			if at != a.Client {
				all = append(all, arrivalKey{a.Listener, at, ""})
			}
		}
		all = append(all, arrivalKey{a.Listener, netip.AddrPort{}, g.Ticket.Username()})
	}
	return all
}

// Add makes a session wait.
func (w *Arrivals) Add(now time.Time, a *Arrival) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.waiting {
		if now.Sub(other.read) > ArrivalTime {
			w.remove(other)
		}
	}
	switch {
	case slices.ContainsFunc(a.keys(), func(key arrivalKey) bool { return w.waiting[key] != nil }):
		return fmt.Errorf("%w: a session of its client waits already", ErrTravel)
	case w.bytes+a.size > maxArrivals:
		return fmt.Errorf("%w: too many sessions wait for their clients", ErrTravel)
	case w.waiting == nil:
		w.waiting = make(map[arrivalKey]*Arrival)
	}
	for _, key := range a.keys() {
		w.waiting[key] = a
	}
	w.bytes += a.size
	w.count.Add(1)
	return nil
}

// remove removes a session. The caller has the lock.
func (w *Arrivals) remove(a *Arrival) {
	for _, key := range a.keys() {
		delete(w.waiting, key)
	}
	w.bytes -= a.size
	w.count.Add(-1)
}

// any reports whether sessions wait.
func (w *Arrivals) any() bool { return w.count.Load() > 0 }

// take returns the waiting session of a client, which is then the caller's, or nil. asks reports whether the client has
// asked for it; nil: its address is enough.
func (w *Arrivals) take(now time.Time, key arrivalKey, asks func(*Arrival) bool) *Arrival {
	if !w.any() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.waiting[key]
	if a == nil || asks != nil && !asks(a) {
		return nil
	}
	w.remove(a)
	if now.Sub(a.read) > ArrivalTime {
		return nil
	}
	return a
}

// save returns the records of the waiting sessions.
func (w *Arrivals) save(now time.Time) (all []saved.Arrival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.waiting {
		if key != a.key() {
			continue
		}
		all = append(all, saved.Arrival{
			Session: record.Append(nil, &a.Travel), Age: a.age, Read: record.MomentOf(now, a.read),
		})
	}
	return all
}

// restore makes sessions wait as they did at another process. A damaged record costs its session only.
func (w *Arrivals) restore(now time.Time, all []saved.Arrival) (lost error) {
	for _, v := range all {
		a, err := readArrival(now, v.Session)
		if err == nil {
			a.age, a.read = min(max(v.Age, 0), travelTime), v.Read.Time(now)
			err = w.Add(now, a)
		}
		lost = errors.Join(lost, err)
	}
	return lost
}

const (
	// maxTravel bounds the size of a travelling session in bytes.
	maxTravel = 512 << 10
	// travelTime bounds the time between TakeOutSession and PutInSession. After a longer time the peers have given up.
	travelTime = 2 * time.Minute
)

// ErrTravel reports bytes that are no session for this Server.
var ErrTravel = errors.New("session cannot be taken in")

// readArrival reads a session from another Server.
func readArrival(now time.Time, b []byte) (*Arrival, error) {
	a := &Arrival{size: len(b)}
	if len(b) > maxTravel {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTravel, len(b), maxTravel)
	}
	err := record.Open(b, saved.TravelKind, saved.TravelVersion, &a.Travel)
	if err == nil && a.Sum != nil && !isIntact(b, a.Sum) {
		err = errDamaged
	}
	if err == nil {
		err = record.Read(a.Session, &a.session)
	}
	if err == nil && (a.session.Kind != saved.SessionKind || a.session.Version != saved.Version) {
		err = unusable("version", a.session.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTravel, err)
	}
	switch age := now.Sub(time.Unix(0, a.At)); {
	case age > travelTime:
		return nil, fmt.Errorf("%w: it was taken out %v ago, and its peers have given up", ErrTravel, age.Round(time.Second))
	case a.Client != a.session.Client || !a.session.Calm && a.session.Body != nil || !a.session.Server.IsValid():
		return nil, fmt.Errorf("%w: %w", ErrTravel, unusable("state", "not established"))
	}
	a.age = min(max(now.Sub(time.Unix(0, a.At)), 0), travelTime)
	a.read = now
	return a, nil
}

// sumLen is the length of a travelling session's hash in bytes.
const sumLen = 16

var errDamaged = errors.New("the record is damaged: its hash differs")

func sumOf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:sumLen]
}

// isIntact reports whether a record has its hash.
func isIntact(b, sum []byte) bool {
	at := bytes.LastIndex(b, sum)
	if len(sum) != sumLen || at < 0 {
		return false
	}
	blank := bytes.Clone(b)
	clear(blank[at : at+sumLen])
	return bytes.Equal(sumOf(blank), sum)
}
