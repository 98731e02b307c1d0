package relay

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/internal/stray"
	"tidegate/proxy/relay/saved"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// Movers choose sessions of one Relay that other nodes can have, of clients whose address the fleet sees.
type Movers struct {
	ofAll
	Most   int                  // number of sessions
	Choose func(stray.Key) bool // accepts a client
	Gone   func(stray.Key)      // is called when a session is taken out; nil: sessions are only copied
	Found  []stray.Session      // the answer
}

// Next implements Request.
func (m *Movers) Next(relays int) (index int, work stats.Work) {
	if len(m.Found) > 0 {
		return -1, stats.WorkMove
	}
	return m.after(relays), stats.WorkMove
}

func (m *Movers) put(*Relay, time.Time) Visit { return m.visit }

// visit writes down a session that moves, until there are enough.
func (m *Movers) visit(r *Relay, now time.Time, e *Entry) int {
	if len(m.Found) == m.Most {
		return enough
	}
	s := &e.Value
	l := s.listener
	if l.stream || l.proxies != nil || !s.isKnown() {
		return looked
	}
	key := r.known.players.keyOf(l.id, e.Key.Client)
	if !m.Choose(key) {
		return looked
	}
	one := stray.Session{Client: key, At: s.node()}
	var err error
	if one.Record, err = travelling(r, now, e); err != nil {
		return taking
	}
	if m.Gone != nil {
		withdraw(r, now, e)
		m.Gone(key)
	}
	m.Found = append(m.Found, one)
	return taking
}

// taking is the cost of a visit that takes a session out.
const taking = 32

// Check returns why a Relay has no place for the session, or nil, and whether the session needs its source address.
func (a *Arrival) Check(now time.Time, r *Relay, before int) (needsSource bool, err error) {
	if err := a.room(r, before); err != nil {
		return false, err
	}
	if r.leaving {
		return false, ErrEnded
	}
	for _, route := range r.routes {
		if route.Name == a.Route.Name {
			needsSource = !route.Upstream.Transport.Transparent && (route.Mode == policy.ModeRelay || route.Failover.Hold == 0)
		}
	}
	return needsSource, a.fits(now, r)
}

// PutIn takes a session in that comes from another node. Its client's datagrams arrive at a node; empty: here.
func (a *Arrival) PutIn(now time.Time, r *Relay, node string) error {
	err := a.fits(now, r)
	if err == nil {
		err = r.arrivals.Add(now, a)
	}
	l := listenerWith(a.ListenerID(), r.listeners)
	if err != nil || l == nil {
		return err
	}
	if a = r.arrivals.take(now, a.key()); a == nil {
		return nil // another loop was faster
	}
	e, err := a.enter(now, r, l, l.faceAt(a.session.Local))
	if e != nil {
		r.ways.at = node
		r.follow(e)
		r.ways.at = ""
	}
	return err
}

// ListenerID returns the number of the session's listener.
func (a *Arrival) ListenerID() uint64 { return stray.ListenerID(a.Listener, a.session.Listener.Port()) }

// keyOf returns the key of a client.
func (p *Players) keyOf(listener uint64, client netip.AddrPort) stray.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.secret.Key(listener, client)
}

const (
	// maxTravel bounds the size of a travelling session in bytes.
	maxTravel = 512 << 10
	// travelTime bounds the time between TakeOutSession and PutInSession. After a longer time the peers have given up.
	travelTime = 2 * time.Minute
)

// ErrTravel reports bytes that are no session for this Server.
var ErrTravel = errors.New("session cannot be taken in")

// RecordSession asks for the whole state of a session as values for JSON, without secrets and payloads.
type RecordSession struct {
	ofOne
	ID    sessions.ID
	State map[string]any // the answer
	bytes []byte
}

// Next implements Request. The caller's goroutine describes the record, and not the loop.
func (q *RecordSession) Next(relays int) (index int, work stats.Work) {
	if index = q.home(q.ID, relays); index < 0 && q.err == nil {
		q.State, q.err = describeRecord(q.bytes)
	}
	return index, stats.WorkList
}

func (q *RecordSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) (err error) {
		q.bytes, err = r.writeDown(now, e)
		return err
	})
}

// describeRecord returns the values of a session's record for JSON, without secrets and payloads.
func describeRecord(b []byte) (map[string]any, error) {
	var v saved.Session
	if err := record.Read(b, &v); err != nil {
		return nil, err
	}
	state := record.DescribeStruct(v)
	state["serial"] = sessions.ID(v.Serial).String()
	if v.Body != nil {
		var body saved.Terminated
		if err := record.Read(v.Body, &body); err != nil {
			return nil, err
		}
		state["body"] = record.DescribeStruct(body)
	}
	return state, nil
}

// writeDown returns the record of a session.
func (r *Relay) writeDown(now time.Time, e *Entry) ([]byte, error) {
	r.Flush(now) // only a connection that has sent all datagrams can be saved
	s := &e.Value
	if s.life == gone {
		return nil, ErrNoSession
	}
	if s.path != nil {
		r.sockets.parkLine(now, s.path)
	}
	x := &Exporter{relay: r, now: now}
	return x.session(e, nil), nil
}

// staysHere returns why a session cannot travel, or nothing.
func staysHere(r *Relay, e *Entry) string {
	s := &e.Value
	if s.listener.stream || s.route.Upstream.Transport.Stream {
		return "a TCP connection belongs to its machine"
	}
	if s.isRelayed() {
		if s.life != joined {
			return "it is not established yet"
		}
		return ""
	}
	if !r.table.IsEstablished(e) {
		return "its client has not proved its address yet"
	}
	for _, c := range r.closing.list {
		if c.of == e && !c.over {
			return "it still says goodbye to another server"
		}
	}
	if s.earlier != nil {
		return "it has just reached its server"
	}
	return s.staysBecause(netip.AddrPort{})
}

// TakeOutSession removes an established session without a goodbye, for PutInSession of this or another Server. After a
// failure elsewhere, PutInSession can give it back. ErrNotMovable names the reason why a session stays.
type TakeOutSession struct {
	ofOne
	ID      sessions.ID
	Record  []byte        // the answer
	claimed atomic.Bool   // by the Relay, or by Err if its driver gives up first
	taken   chan struct{} // closed when the Relay has answered
}

// Next implements Request.
func (q *TakeOutSession) Next(relays int) (index int, work stats.Work) {
	if !q.asked {
		q.taken = make(chan struct{})
	}
	return q.home(q.ID, relays), stats.WorkList
}

func (q *TakeOutSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) (err error) {
		if !q.claimed.CompareAndSwap(false, true) {
			return ErrEnded // nothing would receive the session
		}
		defer close(q.taken)
		q.Record, err = r.takeOut(now, e)
		return err
	})
}

// Err implements Request. A driver that gave up has the session if the Relay was faster.
func (q *TakeOutSession) Err(asking error) error {
	if asking != nil && !q.claimed.CompareAndSwap(false, true) {
		if <-q.taken; q.Record != nil {
			return nil
		}
	}
	return cmp.Or(asking, q.err)
}

// PutInSession takes in a session from TakeOutSession. The session goes on with the next datagram of its client. If
// that does not come within ArrivalTime, the session is lost.
type PutInSession struct {
	Record []byte
	asked  bool
	err    error
}

// Next implements Request. Any Relay can answer for its siblings.
func (q *PutInSession) Next(int) (index int, work stats.Work) {
	if q.asked {
		return -1, stats.WorkMove
	}
	q.asked = true
	return 0, stats.WorkMove
}

func (q *PutInSession) put(r *Relay, now time.Time) Visit {
	a, err := ReadArrival(now, q.Record)
	if err == nil {
		err = a.room(r, 0)
	}
	if err == nil {
		err = a.fits(now, r)
	}
	if err == nil {
		err = r.arrivals.Add(now, a)
	}
	q.err = err
	return nil
}

// Err implements Request.
func (q *PutInSession) Err(asking error) error { return cmp.Or(asking, q.err) }

// takeOut removes a session, and returns it for another Server.
func (r *Relay) takeOut(now time.Time, e *Entry) ([]byte, error) {
	b, err := travelling(r, now, e)
	if err == nil {
		withdraw(r, now, e)
	}
	return b, err
}

// travelling returns a session as takeOut does, and leaves it here.
func travelling(r *Relay, now time.Time, e *Entry) ([]byte, error) {
	session, err := r.writeDown(now, e)
	if err != nil {
		return nil, err
	}
	s := &e.Value
	if cause := staysHere(r, e); cause != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotMovable, cause)
	}
	v := saved.Travel{
		Head:     record.Head{Kind: saved.TravelKind, Version: saved.TravelVersion},
		Listener: s.listener.name, Route: saveRoute(s.route.Route), Session: session,
		At: now.UnixNano(), Client: e.Key.Client,
	}
	if s.socket != nil {
		v.Source = s.socket.Addr()
	}
	v.Sum = make([]byte, sumLen)
	b := record.Append(nil, &v)
	at := bytes.LastIndex(b, v.Sum)
	copy(b[at:], sumOf(b))
	if len(b) > maxTravel {
		return nil, fmt.Errorf("%w: it has %d bytes that wait, and may have %d", ErrNotMovable, len(b), maxTravel)
	}
	if _, err := ReadArrival(now, b); err != nil { // no Server would take it in
		return nil, fmt.Errorf("%w: %w", ErrNotMovable, err)
	}
	return b, nil
}

// withdraw removes a session that has been written down. Its peers hear nothing.
func withdraw(r *Relay, now time.Time, e *Entry) {
	r.offload.recall(e) // counts what the kernel has forwarded
	r.journal.ended(now, e, stats.ByProxy, codec.Closed)
	r.remove(now, e, stats.ByProxy, codec.Closed)
}

// ReadArrival reads a session from another Server.
func ReadArrival(now time.Time, b []byte) (*Arrival, error) {
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

// room returns why a Relay's limits leave no room for the session, or nil. before is the number of sessions that will
// be taken in before it.
func (a *Arrival) room(r *Relay, before int) error {
	before += int(r.arrivals.count.Load())
	if err := r.table.RoomToEnter(a.Client.Addr(), before/r.shard.of); err != nil {
		return fmt.Errorf("%w: %w", ErrTravel, err)
	}
	return nil
}

// fits returns why a Relay's settings have no place for the session, or nil.
func (a *Arrival) fits(now time.Time, r *Relay) error {
	if r.draining && !r.leaving {
		return ErrEnded
	}
	for _, l := range r.listeners {
		if l.name != a.Listener || l.stream {
			continue
		}
		i := BeginImport(r, now)
		i.routes = []saved.Route{a.Route}
		route := i.route(&a.session)
		switch {
		case r.table.peek(sessions.Key{Listener: l.index, Client: a.Client}) != nil:
			return fmt.Errorf("%w: client %v has a session here", ErrTravel, a.Client)
		case route == nil || (route.Mode == policy.ModeRelay) != (a.session.Body == nil):
			return fmt.Errorf("%w: unknown route %q", ErrTravel, a.Route.Name)
		case l.protocolNamed(a.session.Protocol) == nil && r.settings.protocolNamed(a.session.Protocol) == nil:
			return fmt.Errorf("%w: unknown protocol %q", ErrTravel, a.session.Protocol)
		}
		return nil
	}
	return fmt.Errorf("%w: no UDP listener has the name %q", ErrTravel, a.Listener)
}
