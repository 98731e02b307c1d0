package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/record"
	"tidegate/proxy/stats"
)

// A pre-copy shortens the standstill of a handover, as in the live migration of virtual machines. While the loops run,
// they give the successor their sockets to servers, and write all calm sessions. The successor makes them ready to
// enter. Further passes repeat this for the sessions that have changed meanwhile. At the standstill, an unchanged
// session needs only its ID.

const (
	// copying is the cost of a visit that writes a session. It is below its share by time, 6 µs: a fast pass finds more
	// sessions unchanged at its end. A turn writes about 340 sessions, in 2 ms.
	copying = 3
	// mostPasses bounds the passes of a pre-copy.
	mostPasses = 16
	// passesTime ends a pre-copy after the pass that goes beyond it.
	passesTime = 5 * time.Second
	// fewChanged ends a pre-copy: the last pass has written at most one of so many sessions.
	fewChanged = 64
	// leastGain ends a pre-copy: the last pass has written more sessions than the one before, less one of so many. On a
	// busy machine with 10,000 sessions, each pass writes about two thirds of the sessions of the one before.
	leastGain = 8
	// mostBehind ends a pre-copy: a loop has read so many clients' datagrams since its sockets were last empty. Further
	// copies would take time that it does not have. Peers would repeat themselves, and sessions would end.
	mostBehind = 2000
)

// precopy is the state of a Relay's pre-copy.
type precopy struct {
	last  uint8 // the last round: each upgrade has one
	round uint8 // the present round; 0: none
	// naming names the sockets. It is nil in tests.
	naming netio.Handover
	batch  []byte
	room   []byte    // for a record
	began  time.Time // time of the batch
	count  int       // sessions in the batch
}

// start begins a round: sessions that earlier rounds have copied count as changed.
func (c *precopy) start(sockets netio.Poller) {
	if c.last++; c.last == 0 {
		c.last = 1
	}
	*c = precopy{last: c.last, round: c.last}
	c.naming, _ = sockets.(netio.Handover)
}

// stop ends the round. All sessions count as changed.
func (c *precopy) stop() { *c = precopy{last: c.last} }

// has reports whether the present round has copied the session, and the session is unchanged.
func (c *precopy) has(p *session) bool { return p.copied != 0 && p.copied == c.round }

// begin begins the batch of a pass, in the memory of the pass before.
func (c *precopy) begin(now time.Time) { c.batch, c.began, c.count = c.batch[:0], now, 0 }

// copyCalm is a visit that adds a calm session to the batch, unless the batches have it.
func copyCalm(r *Relay, now time.Time, e *entry) int {
	p, c := &e.Value, &r.precopy
	switch {
	case c.round == 0:
		return enough
	case c.has(p), !r.table.IsEstablished(e), p.path != nil && p.path.parked.len() > 0, !p.mayBeCopied():
		return looked
	}
	x := exporter{relay: r, now: now, naming: c.naming}
	c.batch = binary.AppendUvarint(c.batch, uint64(max(now.Sub(c.began), 0)))
	c.batch = appendPiece(c.batch, x.names(e))
	c.room = x.session(e, c.room[:0])
	c.batch = appendPiece(c.batch, c.room)
	c.count++
	p.copied = c.round
	return copying
}

// mayBeCopied reports whether the session is likely to stay as it is. One on the list for the next Flush is about to
// change, and the kernel counts the datagrams of a shortcut.
func (p *session) mayBeCopied() bool {
	if p.isRelayed() {
		return p.shortcut == nil
	}
	return !p.isPending() && !p.dirty && !p.waits && p.isCalm() && p.client.up && p.upstream.up
}

// keeps reports whether the present round has copied the session, and its record would be the same now. The place of a
// session in a server's line changes with the sessions before it.
func (x *exporter) keeps(e *entry) bool {
	p := &e.Value
	return x.copied && x.relay.precopy.has(p) && len(x.closing[e]) == 0 && x.places[e] == 0 &&
		(p.path == nil || p.path.parked.len() == 0)
}

// CopiedSessions is a batch of a pre-copy, for Server.TakeCopies.
type CopiedSessions struct {
	Loop  int
	At    time.Time // stands for the moment of saving
	Batch []byte    // valid until the next one
}

// GivenSockets are sockets of a loop that a successor gets before the sessions, for Server.TakeSockets.
type GivenSockets struct {
	Loop        int
	State       []byte // netio's
	Descriptors []int
}

// Heir is the successor of a pre-copy. Both methods return when the successor has what they give.
type Heir interface {
	GiveSockets(GivenSockets) error
	GiveSessions(CopiedSessions) error
}

// Precopy copies the sessions of all loops to the successor that the next Freeze is for, in several passes.
func (s *Server) Precopy(ctx context.Context, to Heir) (err error) {
	s.precopied.Store(false)
	defer func() {
		if err != nil {
			s.endPrecopy(ctx)
		}
	}()
	for i, l := range s.loops {
		if err := l.giveSockets(ctx, i, to); err != nil {
			return err
		}
		err := l.consult(ctx, stats.WorkHandover, func(r *Relay, _ time.Time) { r.precopy.start(l.poller) })
		if err != nil {
			return err
		}
	}
	began := time.Now()
	for before, pass := 0, 0; pass < mostPasses && time.Since(began) < passesTime; pass++ {
		copied, total := 0, 0
		for i, l := range s.loops {
			b, n, of, err := l.precopy(ctx)
			if err == nil && (n > 0 || pass == 0) {
				b.Loop = i
				err = to.GiveSessions(b)
			}
			if err != nil {
				return err
			}
			copied, total = copied+n, total+of
		}
		if copied <= total/fewChanged || pass > 0 && copied > before-before/leastGain || s.isBehind(ctx) {
			break // a further pass would find as many, or there is no time for it
		}
		before = copied
	}
	s.precopied.Store(true)
	return nil
}

// isBehind reports whether a loop reads less than comes.
func (s *Server) isBehind(ctx context.Context) bool {
	behind := false
	for _, l := range s.loops {
		check := func(r *Relay, _ time.Time) { behind = behind || r.backlog.read > mostBehind }
		if l.consult(ctx, stats.WorkHandover, check) != nil {
			return true // Freeze finds out why
		}
	}
	return behind
}

// endPrecopy frees the memory of a pre-copy that has failed.
func (s *Server) endPrecopy(ctx context.Context) {
	for _, l := range s.loops {
		_ = l.consult(ctx, stats.WorkHandover, func(r *Relay, _ time.Time) { r.precopy.stop() }) // it may have ended
	}
}

// giveSockets gives the connected sockets of the loop, which is the one with this number.
func (l *loop) giveSockets(ctx context.Context, number int, to Heir) error {
	sockets, ok := l.poller.(netio.Handover)
	if !ok {
		return ErrNoHandover
	}
	for first, more := true, true; more; first = false {
		b := GivenSockets{Loop: number}
		err := l.consult(ctx, stats.WorkHandover, func(*Relay, time.Time) {
			b.State, b.Descriptors, more = sockets.Give(first)
		})
		if err == nil {
			err = to.GiveSockets(b)
		}
		netio.CloseCopies(b.Descriptors)
		if err != nil {
			return err
		}
	}
	return nil
}

// precopy makes a pass. It returns the number of copied sessions, and that of all.
func (l *loop) precopy(ctx context.Context) (b CopiedSessions, copied, all int, err error) {
	begin := func(r *Relay, now time.Time) { r.precopy.begin(now) }
	if err = l.consult(ctx, stats.WorkHandover, begin); err != nil {
		return b, 0, 0, err
	}
	if err = l.walk(ctx, stats.WorkHandover, copyCalm); err != nil {
		return b, 0, 0, err
	}
	err = l.consult(ctx, stats.WorkHandover, func(r *Relay, _ time.Time) {
		c := &r.precopy
		b.At, b.Batch, copied, all = c.began, c.batch, c.count, r.table.Len()
	})
	return b, copied, all, err
}

// sessionCopy is a session from a pre-copy.
type sessionCopy struct {
	candidate
	names []byte // of its sockets
	ready bool   // checked and restored: it only has to enter
}

// TakeSockets takes sockets that the predecessor gives before the sessions. It owns the descriptors, also after an
// error.
func (s *Server) TakeSockets(b GivenSockets) error {
	if b.Loop < 0 || b.Loop >= len(s.loops) {
		netio.CloseCopies(b.Descriptors)
		return ErrLoops
	}
	sockets, ok := s.loops[b.Loop].poller.(netio.Handover)
	if !ok {
		netio.CloseCopies(b.Descriptors)
		return ErrNoHandover
	}
	return sockets.Take(b.State, b.Descriptors)
}

// TakeCopies takes a batch of a predecessor's pre-copy, before Import. It restores the connections.
func (s *Server) TakeCopies(b CopiedSessions) error {
	if b.Loop < 0 || b.Loop >= len(s.loops) {
		return ErrLoops
	}
	l := s.loops[b.Loop]
	from, ok := l.poller.(netio.Handover)
	if !ok {
		return ErrNoHandover
	}
	if l.entering == nil {
		l.entering = beginImport(l.relay, b.At)
	}
	for rest := b.Batch; len(rest) > 0; {
		after, n := binary.Uvarint(rest)
		if n <= 0 {
			return errCut
		}
		names, more, ok := cutPiece(rest[n:])
		if !ok {
			return errCut
		}
		if rest, more, ok = cutPiece(more); !ok {
			return errCut
		}
		sockets, found := namedSockets(nil, from, names)
		l.entering.copied(rest, b.At.Add(min(time.Duration(after), time.Hour)), names, sockets, found)
		rest = more
	}
	l.relay.table.Reserve(len(l.entering.copies))
	return nil
}

// copied keeps a session with the names of its sockets. If all sockets were found, it also checks the session and
// restores its connections. An unreadable record is not kept: its session fails later, if the predecessor still has it.
func (i *importer) copied(b []byte, at time.Time, names []byte, sockets []netio.Socket, found bool) {
	one := &sessionCopy{candidate: newCandidate(at, sockets), names: bytes.Clone(names)}
	v := &one.savedSession
	if record.Read(b, v) != nil || v.Is(sessionKind, savedVersion) != nil || v.Calm != (v.Body != nil) {
		return
	}
	if i.copies == nil {
		i.copies = make(map[SessionID]*sessionCopy)
	}
	i.copies[v.Serial] = one
	if !found || one.check(i) != nil {
		return
	}
	if v.Body == nil {
		one.ready = true
		return
	}
	t, err := restoreCalm(i.relay, at, one.session, v.Body)
	one.pending.restored, one.ready = t, err == nil
}

// takeCopy takes a session out of the pre-copy.
func (i *importer) takeCopy(id SessionID) (*sessionCopy, error) {
	one := i.copies[id]
	if one == nil {
		return nil, unusable("copy of the session", id)
	}
	delete(i.copies, id)
	return one, nil
}

// isReady reports whether the session only has to enter. The copy came before the predecessor's routes.
func (o *sessionCopy) isReady(i *importer) bool {
	return o.ready && i.route(&o.savedSession) == o.route
}

// again checks a session that is not ready.
func (o *sessionCopy) again(i *importer, sockets []netio.Socket) error {
	v := o.savedSession
	o.candidate = newCandidate(o.at, sockets)
	o.savedSession = v
	return o.finish(i, o.check(i))
}
