package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/proxy/relay/saved"
	sessions "tidegate/session"
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
	Returns bool // its old node takes it back if it would be lost here
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
		return fmt.Errorf("%w: a session of client %v waits already", ErrTravel, a.Client)
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

// take returns the waiting session of a client, which is then the caller's, or nil.
func (w *Arrivals) take(now time.Time, key arrivalKey) *Arrival {
	if !w.any() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.waiting[key]
	if a == nil {
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
		a, err := ReadArrival(now, v.Session)
		if err == nil {
			a.age, a.read = min(max(v.Age, 0), travelTime), v.Read.Time(now)
			err = w.Add(now, a)
		}
		lost = errors.Join(lost, err)
	}
	return lost
}

// errLater says that an arriving session cannot have its old source address yet.
var errLater = errors.New("its source address is in use")

// arrived makes the session of a client that comes from another Server, and returns nil if there is none.
func (r *Relay) arrived(now time.Time, l *listener, s netio.Socket, client netip.AddrPort) *Entry {
	return r.takeArrival(now, l, s, arrivalKey{l.name, client, ""})
}

// takeArrival makes the session with a key that comes from another Server, and returns nil if there is none.
func (r *Relay) takeArrival(now time.Time, l *listener, s netio.Socket, key arrivalKey) *Entry {
	a := r.arrivals.take(now, key)
	if a == nil {
		return nil
	}
	e, err := a.enter(now, r, l, s)
	if err != nil {
		r.journal.log.Error().Err(err).Stringer("client", a.Client).Str("listener", l.name).
			Msg("session lost: it cannot be taken in")
	}
	return e
}

// enter makes a session that comes from another Server. It returns nil if the session waits for its source address:
// the client's next datagram tries it again.
func (a *Arrival) enter(now time.Time, r *Relay, l *listener, s netio.Socket) (*Entry, error) {
	e, err := a.takeIn(now, r, l, s)
	if errors.Is(err, errLater) {
		return nil, r.arrivals.Add(now, a)
	}
	return e, err
}

// takeIn makes the session in a Relay, with an ID and sockets of its own.
func (a *Arrival) takeIn(now time.Time, r *Relay, l *listener, s netio.Socket) (*Entry, error) {
	i := BeginImport(r, now.Add(-a.age-now.Sub(a.read)))
	i.routes = []saved.Route{a.Route}
	v := a.session
	route := i.route(&v)
	if route == nil {
		return nil, unusable("unknown route", v.Route)
	}
	v.Listener, v.Stream, v.Serial = l.addr, false, uint64(r.serials.next())
	v.OwnFace, v.Local = false, netip.Addr{}
	if netio.ListenerOf(s) != s { // one of the listener's local sockets
		v.Local = s.Addr().Addr()
	}
	if v.OwnsID {
		if v.OwnsID = route.ids.claim(v.ID); v.OwnsID {
			route.ids.free(v.ID) // the import claims it
		}
	}
	to := v.Server
	if v.Edge != nil {
		to = v.Edge.Ticket.Target
	}
	socket, err := route.Upstream.dialFrom(r.sockets.Sockets, to, a.Source, v.Client)
	if err != nil {
		return nil, err
	}
	v.HasSocket = true
	same := socket.Addr() == a.Source
	lost := !same && (route.Mode == policy.ModeRelay || route.Failover.Hold == 0)
	if !same && now.Sub(a.read) < addressTime && (!lost || !a.Returns) {
		socket.Close()
		return nil, errLater
	}
	if lost {
		socket.Close()
		return nil, fmt.Errorf("%w: its server knows it by the address %v, which is not free here, and its route holds "+
			"no sessions", ErrTravel, a.Source)
	}
	if err := i.session(record.Append(nil, &v), []netio.Socket{socket}); err != nil {
		return nil, err
	}
	e := r.table.Get(now, sessions.Key{Listener: l.index, Client: v.Client})
	if e != nil && !same {
		reseek(r, now, e)
	}
	return e, nil
}

// reseek makes a session look for a server, although its own may be well.
func reseek(r *Relay, now time.Time, e *Entry) {
	s := &e.Value
	r.counters.Held++
	r.journal.held(e, codec.TransportError)
	r.hold(now, e, seeking, hold{until: now.Add(s.route.Failover.Hold)})
	r.leaveServer(now, s)
	r.waiting.seek(now, e)
}
