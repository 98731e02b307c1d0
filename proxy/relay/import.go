package relay

import (
	"cmp"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/saved"
	"tidegate/session"
)

// BeginImport prepares the import of records that were saved at one moment.
func BeginImport(r *Relay, now time.Time) *Importer { return &Importer{relay: r, now: now} }

// session makes the session of a record again, and takes over its sockets. An error costs only this session: it closes
// the sockets and changes nothing else.
func (i *Importer) session(b []byte, sockets []netio.Socket) error {
	c := &i.room
	*c = newCandidate(i.now, sockets)
	err := record.Read(b, &c.Session)
	if err == nil {
		err = c.check(i)
	}
	return c.finish(i, err)
}

// end puts sessions into the lines where they have waited. It begins the walk that restores their connections: each
// visit does that.
func (i *Importer) end() {
	r := i.relay
	slices.SortFunc(i.waiting, func(a, b waiter) int { return a.place - b.place })
	for _, w := range i.waiting {
		s := &w.entry.Value
		line := &r.waiting.of(s.route.pool).new
		if s.hold != nil {
			line = &r.waiting.of(s.route.pool).held
		}
		line.push(w.entry)
		r.waiting.attendBy(i.now)
	}
	i.waiting = nil
	if len(r.retired.empty()) > 0 {
		r.retired.deserted()
	}
	r.walk(i.now, func(*Relay, time.Time, *Entry) int { return looked }, nil)
}

// finish adds the session to the Relay, or closes its sockets. err is that of its check.
func (c *candidate) finish(i *Importer, err error) error {
	switch {
	case err != nil:
	case i.relay.table.peek(c.key()) != nil:
		err = unusable("client", "one with a session")
	case c.OwnsID && !c.route.ids.claim(c.ID):
		err = unusable("client ID in use", c.ID)
	}
	if err != nil {
		for _, s := range c.given {
			s.Close()
		}
		return err
	}
	c.enter(i)
	return nil
}

// check makes the session of a record. It changes nothing of the Relay.
func (c *candidate) check(i *Importer) error {
	v := &c.Session
	if v.Kind != saved.SessionKind || v.Version != saved.Version {
		return unusable("version", v.Version)
	}
	c.spared = i.relay.stood
	if v.RefusedFrom != 0 {
		c.refusedFrom = v.RefusedFrom.Time(c.at).Sub(i.relay.born)
	}
	if err := c.refer(i); err != nil {
		return err
	}
	if err := c.take(); err != nil {
		return err
	}
	if v.Calm && c.socket == nil && v.Body != nil {
		return unusable("socket to the server", "missing")
	}
	c.restoreFigures(c.at)
	switch {
	case v.Body == nil:
	case v.Calm:
		at := c.at.Add(-min(max(v.Age, 0), time.Hour))
		c.terminated = &terminated{
			pending: &pending{body: v.Body, at: at, identity: v.Identity}, origin: serversID,
		}
		c.trust.Answered = v.Known
	default:
		if err := c.restoreWhole(i); err != nil {
			return err
		}
	}
	if c.terminated != nil {
		if c.id = v.ID; v.OwnsID {
			c.origin = ownID
		}
	}
	switch {
	case len(c.sockets) > 0:
		return unusable("number of further sockets", len(c.sockets))
	case v.OwnsID && v.Body == nil:
		return unusable("client ID of a relayed session", v.ID)
	}
	return nil
}

// refer finds what the record names.
func (c *candidate) refer(i *Importer) error {
	v, r := &c.Session, i.relay
	if c.listener = i.listenerOf(v); c.listener == nil {
		return unusable("unknown listener", v.Listener)
	}
	if c.route = i.route(v); c.route == nil {
		return unusable("unknown route", v.Route)
	}
	if c.protocol = c.listener.protocolNamed(v.Protocol); c.protocol == nil {
		if p := r.settings.protocolNamed(v.Protocol); p != nil {
			c.protocol = r.locals.of(p)
		}
	}
	if c.protocol == nil {
		return unusable("unknown protocol", v.Protocol)
	}
	switch {
	case v.Edge != nil && (c.listener.joins == nil || v.Body != nil):
		return unusable("listener without NetherNet", v.Listener)
	case (c.route.Mode == policy.ModeRelay) != (v.Body == nil):
		return unusable("route of another mode", v.Route)
	case !v.Client.IsValid():
		return unusable("client", v.Client)
	case v.Serial == 0 || !r.serials.has(session.ID(v.Serial)):
		return unusable("session ID", v.Serial)
	case v.Path != nil && !v.Server.IsValid(), v.HasSocket && !v.Server.IsValid():
		return unusable("server", v.Server)
	}
	return nil
}

// listenerOf returns the listener of a session, or nil.
func (i *Importer) listenerOf(v *saved.Session) *listener {
	for _, all := range [][]*listener{i.relay.listeners, i.gone} {
		if n := slices.IndexFunc(all, wasAt(v)); n >= 0 {
			return all[n]
		}
	}
	return nil
}

// wasAt returns a function that reports whether a session was at a listener.
func wasAt(v *saved.Session) func(*listener) bool {
	return func(l *listener) bool { return l.addr == v.Listener && l.stream == v.Stream }
}

// take assigns the first sockets.
func (c *candidate) take() error {
	v := &c.Session
	next := func() (s netio.Socket, err error) {
		if len(c.sockets) == 0 {
			return nil, unusable("number of sockets", 0)
		}
		s, c.sockets = c.sockets[0], c.sockets[1:]
		return s, nil
	}
	var err error
	c.face = c.listener.socket
	if v.OwnFace {
		if c.face, err = next(); err != nil {
			return err
		}
	} else if at, ok := c.face.(netio.LocalSockets); ok && v.Local.IsValid() {
		c.face = at.LocalSocket(v.Local)
	}
	if v.HasSocket {
		c.socket, err = next()
	}
	return err
}

// restoreFigures restores the plain fields of the first part.
func (c *candidate) restoreFigures(now time.Time) {
	v := &c.Session
	c.via, c.preamble, c.serial = restoreProxy(v.Via), restorePreamble(v.Preamble), session.ID(v.Serial)
	c.opened, c.heard = c.since(cmp.Or(v.Opened.Time(now), now)), c.since(cmp.Or(v.Heard.Time(now), now))
	c.fromClient, c.fromServer = v.FromClient, v.FromServer
	c.tries, c.refused, c.answered = v.Tries, v.Refused, v.Answered
	if v.Established {
		c.life = joined // unless its second part says more
	}
	switch {
	case v.Gate != nil:
		c.gate = *v.Gate
	case len(v.Body) == 0: // a relayed session of which the server has let the client in, or an earlier release's
		c.gate = codec.GateOpen
	}
}

// restoreWhole restores the second part at once.
func (c *candidate) restoreWhole(i *Importer) error {
	t, late, err := restoreTerminated(i.relay, i.now, c.link, c.Body)
	if err != nil {
		return err
	}
	if c.terminated, c.late = t, *late; t.upstream.Live() && c.socket == nil {
		return unusable("socket to the server", "missing")
	}
	if t.earlier != nil {
		n := late.Earlier.Sockets
		if n < 0 || n > len(c.sockets) {
			return unusable("number of earlier sockets", n)
		}
		t.earlier.sockets, c.sockets = slices.Clone(c.sockets[:n]), c.sockets[n:]
	}
	for _, v := range late.Closing {
		if len(c.sockets) == 0 {
			return unusable("number of sockets", 0)
		}
		conn, err := c.route.speaks.Restore(i.now, c.sockets[0], v.Conn)
		if err != nil {
			return err
		}
		c.closing = append(c.closing, &closingConn{
			conn: conn, socket: c.sockets[0], preamble: restorePreamble(v.Preamble), until: v.Until.Time(i.now), late: v.Late,
		})
		c.sockets = c.sockets[1:]
	}
	return nil
}

// enter adds the session to the Relay.
func (c *candidate) enter(i *Importer) {
	r, v := i.relay, &c.Session
	c.tally = r.samples.tallies.Of(c.listener.name, v.Protocol)
	if v.Server.IsValid() {
		c.server = c.route.pool.Rejoin(v.Server)
	}
	e, s := c.entry, c.link
	r.table.Enter(e, c.key(), v.Full)
	if v.OwnFace {
		s.face.SetOwner(s.listener)
	}
	if s.socket != nil {
		s.socket.SetOwner(e)
	}
	if v.Path != nil {
		r.sockets.rejoin(c.at, e, v.Path)
	}
	s.listener.sessions++
	r.serials.last = max(r.serials.last, s.serial)
	r.counters.Opened++
	s.tally.Opened++
	if s.life.hasJoined() {
		s.tally.Established++
	}
	r.guard.Enroll(&s.meter, v.Client.Addr())
	recallMeter(c.at, &r.guard, &s.meter, &v.Meter)
	if v.Cause != "" {
		r.journal.causes[s.serial] = v.Cause
	}
	if v.Known {
		r.table.Prove(e)
		r.known.add(s.listener, v.Client)
	}
	if v.Edge != nil {
		restoreEdge(i.now, e, v.Edge, r.shard.index)
	}
	if s.isRelayed() {
		if s.answered {
			r.table.Offer(e)
		}
		r.table.Schedule(e, i.now, s.expiry(r.settings))
		return
	}
	if v.Identity != 0 {
		r.presence.record(presenceKey{s.listener.name, v.Identity}, present{session: s.serial, from: v.Client})
	}
	if s.pending == nil {
		c.resume(i, e)
	}
}

// resume resumes the second part of a session that was restored at once.
func (c *candidate) resume(i *Importer, e *Entry) {
	r, s := i.relay, &e.Value
	for _, x := range c.closing {
		x.of = e
		x.socket.SetOwner(x)
		r.closing.list = append(r.closing.list, x)
		r.closing.plan(x)
	}
	r.samples.add(s)
	if h := c.late.Hold; h != nil && h.Ticket != nil {
		r.waiting.requeue(i.now, e, h.Ticket)
	}
	if c.late.Place > 0 {
		i.waiting = append(i.waiting, waiter{c.late.Place, e})
	}
	r.dirty.mark(e)
}

// rejoin puts a session on its path again, with its parked datagrams.
func (o *outlet) rejoin(now time.Time, e *Entry, v *saved.Path) {
	s := &e.Value
	way := o.paths.rejoin(now, s.route.Upstream, s.server.Addr, v.Source)
	if way == nil && len(v.Parked) > 0 {
		way = &path{sessions: 1} // without a bound
	}
	s.path = way
	if way == nil {
		return
	}
	if way.window != nil {
		way.window.Recall(timesOf(now, v.Sent))
	}
	for _, datagram := range v.Parked {
		way.park(e, datagram)
		o.paths.block(way)
	}
}

// requeue gives a session its place in the line of the server that it has lost.
func (w *waiting) requeue(now time.Time, e *Entry, v *upstream.SavedTicket) {
	t := w.ticket(e)
	if e.Value.route.pool.RestoreTicket(now, t, v, e.Value.server) {
		e.Value.hold.ticket = t
		w.inLine++
		w.attendBy(now)
	}
}
