package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/internal/stray"
	"tidegate/proxy/relay/saved"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// taking is the cost of a visit that takes a session out.
const taking = 32

// check returns why a Relay has no place for the session, or nil, and whether the session needs its source address.
func (a *Arrival) check(now time.Time, r *Relay, before int) (needsSource bool, err error) {
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

// putIn takes a session in that comes from another node. Its client's datagrams arrive at a node; empty: here.
func (a *Arrival) putIn(now time.Time, r *Relay, node string) error {
	err := a.fits(now, r)
	if err == nil {
		err = r.arrivals.Add(now, a)
	}
	l := listenerWith(a.listenerID(), r.listeners)
	if err != nil || l == nil {
		return err
	}
	if a = r.arrivals.take(now, a.key(), nil); a == nil {
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

// listenerID returns the number of the session's listener.
func (a *Arrival) listenerID() uint64 { return stray.ListenerID(a.Listener, a.session.Listener.Port()) }

// describeRecord returns the values of a session's record for JSON, without secrets and payloads.
func describeRecord(b []byte) (map[string]any, error) {
	var v saved.Session
	if err := record.Read(b, &v); err != nil {
		return nil, err
	}
	state := record.DescribeStruct(time.Time{}, &v)
	state["serial"] = session.ID(v.Serial).String()
	if v.Body != nil {
		var body saved.Terminated
		if err := record.ReadAt(time.Time{}, v.Body, &body); err != nil {
			return nil, err
		}
		state["body"] = record.DescribeStruct(time.Time{}, &body)
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
	switch {
	case s.listener.stream || s.route.Upstream.Transport.Stream:
		return "a TCP connection belongs to its machine"
	case isStacked(s):
		return "its encryption belongs to this process"
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
	if slices.ContainsFunc(r.closing.list, func(c *closingConn) bool { return c.of == e && !c.over }) {
		return "it still says goodbye to another server"
	}
	if s.earlier != nil {
		return "it has just reached its server"
	}
	return s.staysBecause(netip.AddrPort{})
}

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
	if _, err := readArrival(now, b); err != nil { // no Server would take it in
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
		case r.table.peek(session.Key{Listener: l.index, Client: a.Client}) != nil:
			return fmt.Errorf("%w: its client has a session here", ErrTravel)
		case route == nil || (route.Mode == policy.ModeRelay) != (a.session.Body == nil):
			return fmt.Errorf("%w: unknown route %q", ErrTravel, a.Route.Name)
		case l.protocolNamed(a.session.Protocol) == nil && r.settings.protocolNamed(a.session.Protocol) == nil:
			return fmt.Errorf("%w: unknown protocol %q", ErrTravel, a.session.Protocol)
		}
		return nil
	}
	return fmt.Errorf("%w: no UDP listener has the name %q", ErrTravel, a.Listener)
}

// errLater says that an arriving session cannot have its old source address yet.
var errLater = errors.New("its source address is in use")

// arrived makes the session of a client that comes from another Server, and returns nil if there is none.
func (r *Relay) arrived(now time.Time, l *listener, s netio.Socket, client netip.AddrPort) *Entry {
	return r.takeArrival(now, l, s, arrivalKey{l.name, client, ""}, nil)
}

// takeArrival makes the session with a key that comes from another Server, and returns nil if there is none.
func (r *Relay) takeArrival(now time.Time, l *listener, s netio.Socket, key arrivalKey,
	asks func(*Arrival) bool) *Entry {
	a := r.arrivals.take(now, key, asks)
	if a == nil {
		return nil
	}
	e, err := a.enter(now, r, l, s)
	if err != nil {
		r.journal.log.Error().Err(err).Str("client", r.journal.player(a.Client)).Str("listener", l.name).
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
	if !same && now.Sub(a.read) < addressTime && (!lost || !a.returns) {
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
	e := r.table.Get(now, session.Key{Listener: l.index, Client: v.Client})
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
