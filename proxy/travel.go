package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/record"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// A session can travel to another Server, in another process or on another machine. TakeOut removes it here and
// returns it as bytes. PutIn gives the bytes to the other Server, where the session waits until its client's next
// datagram arrives.

const (
	travelKind    = "travelling session"
	travelVersion = 1

	// maxTravel bounds the size of a travelling session in bytes.
	maxTravel = 512 << 10
	// travelTime bounds the time between TakeOut and PutIn. After a longer time the peers have given up.
	travelTime = 2 * time.Minute
)

// ErrTravel reports bytes that are no session for this Server.
var ErrTravel = errors.New("session cannot be taken in")

var _ = record.Register[savedTravel](travelVersion, travelKind)

// savedTravel is a travelling session.
type savedTravel struct {
	record.Head
	Listener string         `cbor:"3,keyasint"` // its name: machines have different addresses
	Route    savedRoute     `cbor:"4,keyasint"`
	Session  []byte         `cbor:"5,keyasint"`           // a savedSession
	Source   netip.AddrPort `cbor:"6,keyasint,omitempty"` // the client's address as the game server sees it
	At       int64          `cbor:"7,keyasint"`           // time of TakeOut in Unix nanoseconds
	Client   netip.AddrPort `cbor:"8,keyasint"`
}

// TakeOut removes an established session without a goodbye, and returns it for PutIn. The session is gone from this
// Server then: after a failure elsewhere, PutIn can give it back. ErrNotMovable names the reason why a session stays.
func (s *Server) TakeOut(ctx context.Context, id SessionID) ([]byte, error) {
	var claimed atomic.Bool // by the loop, or by this function if ctx ends first
	var taken []byte
	done := make(chan struct{})
	err := s.atHome(ctx, id, func(r *Relay, now time.Time, e *entry) (err error) {
		if !claimed.CompareAndSwap(false, true) {
			return ErrStopped // nothing would receive the session
		}
		defer close(done)
		taken, err = takeOut(r, now, e)
		return err
	})
	if err != nil && !claimed.CompareAndSwap(false, true) {
		if <-done; taken != nil { // the loop was faster than the end of ctx
			return taken, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// Record returns the whole state of a session as values for JSON, without secrets and payloads.
func (s *Server) Record(ctx context.Context, id SessionID) (state map[string]any, err error) {
	var b []byte
	err = s.atHome(ctx, id, func(r *Relay, now time.Time, e *entry) (err error) {
		b, err = writeDown(r, now, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return describeRecord(b)
}

func describeRecord(b []byte) (map[string]any, error) {
	var v savedSession
	if err := record.Read(b, &v); err != nil {
		return nil, err
	}
	state := record.DescribeStruct(v)
	if v.Body != nil {
		var body savedTerminated
		if err := record.Read(v.Body, &body); err != nil {
			return nil, err
		}
		state["body"] = record.DescribeStruct(body)
	}
	return state, nil
}

// writeDown returns the record of a session.
func writeDown(r *Relay, now time.Time, e *entry) ([]byte, error) {
	r.Flush(now) // only a connection that has sent all datagrams can be saved
	p := &e.Value
	if !p.isRelayed() && p.forgotten {
		return nil, ErrNoSession
	}
	if p.path != nil {
		r.sockets.parkLine(now, p.path)
	}
	x := &exporter{relay: r, now: now}
	return x.session(e, nil), nil
}

// staysHere returns why a session cannot travel, or nothing.
func staysHere(r *Relay, e *entry) string {
	p := &e.Value
	if p.listener.stream || p.route.Upstream.Transport.Stream {
		return "a TCP connection belongs to its machine"
	}
	if p.isRelayed() {
		if !p.established {
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
	if p.earlier != nil {
		return "it has just reached its server"
	}
	return p.staysBecause(netip.AddrPort{})
}

// takeOut removes a session, and returns it for another Server.
func takeOut(r *Relay, now time.Time, e *entry) ([]byte, error) {
	b, err := travelling(r, now, e)
	if err == nil {
		withdraw(r, now, e)
	}
	return b, err
}

// travelling returns a session as takeOut does, and leaves it here.
func travelling(r *Relay, now time.Time, e *entry) ([]byte, error) {
	session, err := writeDown(r, now, e)
	if err != nil {
		return nil, err
	}
	p := &e.Value
	if cause := staysHere(r, e); cause != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotMovable, cause)
	}
	v := savedTravel{
		Head:     record.Head{Kind: travelKind, Version: travelVersion},
		Listener: p.listener.name, Route: saveRoute(p.route.Route), Session: session,
		At: time.Now().UnixNano(), Client: e.Key.Client,
	}
	if p.socket != nil {
		v.Source = p.socket.Addr()
	}
	b := record.Append(nil, &v)
	if len(b) > maxTravel {
		return nil, fmt.Errorf("%w: it has %d bytes that wait, and may have %d", ErrNotMovable, len(b), maxTravel)
	}
	if _, err := readArrival(b); err != nil { // no Server would take it in
		return nil, fmt.Errorf("%w: %w", ErrNotMovable, err)
	}
	return b, nil
}

// withdraw removes a session that has been written down. Its peers hear nothing.
func withdraw(r *Relay, now time.Time, e *entry) {
	p := &e.Value
	if p.isRelayed() {
		r.offload.recall(e)
	} else {
		if p.ownsID {
			p.route.ids.free(p.id)
		}
		r.presence.remove(p)
		r.held.set(e, 0)
		r.samples.lastOfClient(p)
		r.samples.lastOfServer(p)
		p.forgotten = true
	}
	r.journal.ended(now, e, stats.ByProxy, codec.Closed)
	r.remove(now, e, stats.ByProxy, codec.Closed)
}

// PutIn takes in a session from TakeOut of this or another Server. The session goes on with the next datagram of its
// client. If that does not come within ArrivalTime, the session is lost.
func (s *Server) PutIn(ctx context.Context, b []byte) error {
	a, err := readArrival(b)
	if err != nil {
		return err
	}
	var fault error
	err = s.loops[0].consult(ctx, stats.WorkMove, func(r *Relay, now time.Time) {
		if fault = a.room(r, 0); fault == nil {
			fault = a.fits(now, r)
		}
	})
	if err != nil {
		return err // the loop may still write the fault
	}
	if fault != nil {
		return fault
	}
	return s.arrivals.add(time.Now(), a)
}

// readArrival reads a session from another Server.
func readArrival(b []byte) (*arrival, error) {
	a := &arrival{size: len(b)}
	if len(b) > maxTravel {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTravel, len(b), maxTravel)
	}
	err := record.Open(b, travelKind, travelVersion, &a.savedTravel)
	if err == nil {
		err = record.Read(a.Session, &a.session)
	}
	if err == nil && (a.session.Kind != sessionKind || a.session.Version != savedVersion) {
		err = unusable("version", a.session.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTravel, err)
	}
	switch age := time.Since(time.Unix(0, a.At)); {
	case age > travelTime:
		return nil, fmt.Errorf("%w: it was taken out %v ago, and its peers have given up", ErrTravel, age.Round(time.Second))
	case a.Client != a.session.Client || !a.session.Calm && a.session.Body != nil || !a.session.Server.IsValid():
		return nil, fmt.Errorf("%w: %w", ErrTravel, unusable("state", "not established"))
	}
	a.age = min(max(time.Since(time.Unix(0, a.At)), 0), travelTime)
	a.read = time.Now()
	return a, nil
}

// room returns why a Relay's limits leave no room for the session, or nil. before is the number of sessions that will
// be taken in before it.
func (a *arrival) room(r *Relay, before int) error {
	before += int(r.arrivals.count.Load())
	if err := r.table.RoomToEnter(a.Client.Addr(), before/r.shard.of); err != nil {
		return fmt.Errorf("%w: %w", ErrTravel, err)
	}
	return nil
}

// fits returns why a Relay's settings have no place for the session, or nil.
func (a *arrival) fits(now time.Time, r *Relay) error {
	if r.draining && !r.leaving {
		return ErrEnded
	}
	for _, d := range r.listeners {
		if d.name != a.Listener || d.stream {
			continue
		}
		i := beginImport(r, now)
		i.routes = []savedRoute{a.Route}
		route := i.route(&a.session)
		switch {
		case r.table.Get(sessions.Key{Listener: d.index, Client: a.Client}) != nil:
			return fmt.Errorf("%w: client %v has a session here", ErrTravel, a.Client)
		case route == nil || (route.Mode == ModeRelay) != (a.session.Body == nil):
			return fmt.Errorf("%w: unknown route %q", ErrTravel, a.Route.Name)
		case d.protocolNamed(a.session.Protocol) == nil && r.settings.protocolNamed(a.session.Protocol) == nil:
			return fmt.Errorf("%w: unknown protocol %q", ErrTravel, a.session.Protocol)
		}
		return nil
	}
	return fmt.Errorf("%w: no UDP listener has the name %q", ErrTravel, a.Listener)
}
