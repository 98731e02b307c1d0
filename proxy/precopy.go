package proxy

import (
	"context"
	"encoding/binary"
	"time"

	"tidegate/codec"
	"tidegate/internal/record"
	"tidegate/proxy/stats"
)

// A pre-copy shortens the standstill of a handover, as in the live migration of virtual machines. While the loops run,
// they write the bodies of all calm sessions, and the successor restores their connections. Further passes repeat this
// for the sessions that have changed meanwhile. At the standstill, an unchanged session needs only its first part.

const (
	// copying is the cost of a visit that writes a session. It takes about 6 µs.
	copying = 10
	// mostPasses bounds the passes of a pre-copy.
	mostPasses = 16
	// fewChanged ends a pre-copy: the last pass has written at most one of so many sessions.
	fewChanged = 64
	// leastGain ends a pre-copy: the last pass has written more sessions than the one before, less one of so many. On a
	// busy machine with 10,000 sessions, each pass writes about two thirds of the sessions of the one before.
	leastGain = 8
)

// precopy is the state of a Relay's pre-copy.
type precopy struct {
	last  uint8 // the last round: each upgrade has one
	round uint8 // the present round; 0: none
	batch []byte
	began time.Time // time of the batch
	count int       // sessions in the batch
}

// start begins a round: sessions that earlier rounds have copied count as changed.
func (c *precopy) start() {
	if c.last++; c.last == 0 {
		c.last = 1
	}
	*c = precopy{last: c.last, round: c.last}
}

// stop ends the round. All sessions count as changed.
func (c *precopy) stop() { *c = precopy{last: c.last} }

// has reports whether the present round has copied the session, and the session is unchanged.
func (c *precopy) has(p *session) bool { return p.copied != 0 && p.copied == c.round }

// begin begins the batch of a pass.
func (c *precopy) begin(now time.Time) { c.batch, c.began, c.count = nil, now, 0 }

// copyCalm is a visit that adds a calm session to the batch, unless the batches have it. A session on the list for the
// next Flush is about to change.
func copyCalm(r *Relay, now time.Time, e *entry) int {
	p, c := &e.Value, &r.precopy
	switch {
	case c.round == 0:
		return enough
	case p.isRelayed(), c.has(p), p.isPending(), p.dirty, p.waits, !p.isCalm(), !p.client.up, !p.upstream.up,
		!r.table.IsEstablished(e):
		return looked
	}
	x := exporter{relay: r, now: now}
	c.batch = binary.AppendUvarint(c.batch, uint64(max(now.Sub(c.began), 0)))
	c.batch = appendPiece(c.batch, x.session(e, nil))
	c.count++
	p.copied = c.round
	return copying
}

// CopiedSessions is a batch of a pre-copy, for Server.TakeCopies.
type CopiedSessions struct {
	Loop  int
	At    time.Time // stands for the moment of saving
	Batch []byte
}

// Precopy copies the sessions of all loops to the successor that the next Freeze is for, in several passes. It calls
// send with each batch. send returns when the successor has taken the batch.
func (s *Server) Precopy(ctx context.Context, send func(CopiedSessions) error) error {
	s.precopied.Store(false)
	for _, l := range s.loops {
		if err := l.consult(ctx, stats.WorkHandover, func(r *Relay, _ time.Time) { r.precopy.start() }); err != nil {
			return err
		}
	}
	for before, pass := 0, 0; pass < mostPasses; pass++ {
		copied, total := 0, 0
		for i, l := range s.loops {
			b, n, of, err := l.precopy(ctx)
			if err == nil && (n > 0 || pass == 0) {
				b.Loop = i
				err = send(b)
			}
			if err != nil {
				return err
			}
			copied, total = copied+n, total+of
		}
		if copied <= total/fewChanged || pass > 0 && copied > before-before/leastGain {
			break // a further pass would find as many
		}
		before = copied
	}
	s.precopied.Store(true)
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
		c.batch = nil
	})
	return b, copied, all, err
}

// bodyCopy is the body of a session from a pre-copy.
type bodyCopy struct {
	body     []byte
	at       time.Time // stands for the moment of saving
	restored *terminated
	// The body was restored for these.
	listener *listener
	route    *route
	protocol codec.Protocol
}

// of returns the restored body, or nil if the session needs another one.
func (o *bodyCopy) of(p *session) *terminated {
	if o.listener != p.listener || o.route != p.route || o.protocol != p.protocol {
		return nil
	}
	return o.restored
}

// TakeCopies takes a batch of a predecessor's pre-copy, before Import. It restores the connections.
func (s *Server) TakeCopies(b CopiedSessions) error {
	if b.Loop < 0 || b.Loop >= len(s.loops) {
		return ErrLoops
	}
	l := s.loops[b.Loop]
	if l.entering == nil {
		l.entering = beginImport(l.relay, b.At)
	}
	for rest := b.Batch; len(rest) > 0; {
		after, n := binary.Uvarint(rest)
		if n <= 0 {
			return errCut
		}
		piece, more, ok := cutPiece(rest[n:])
		if !ok {
			return errCut
		}
		l.entering.copied(piece, b.At.Add(min(time.Duration(after), time.Hour)))
		rest = more
	}
	return nil
}

// copied keeps the body of a session, and restores it if possible. An unreadable record is not kept: its session fails
// later, if the predecessor still has it.
func (i *importer) copied(b []byte, at time.Time) {
	c := &i.room
	*c = candidate{}
	v := &c.savedSession
	if record.Read(b, v) != nil || v.Is(sessionKind, savedVersion) != nil || !v.Calm || v.Body == nil {
		return
	}
	one := &bodyCopy{body: v.Body, at: at}
	if c.refer(i) == nil {
		if t, err := restoreCalm(i.relay, at, &c.session, v.Body); err == nil {
			one.restored, one.listener, one.route, one.protocol = t, c.listener, c.route, c.protocol
		}
	}
	if i.copies == nil {
		i.copies = make(map[SessionID]*bodyCopy)
	}
	i.copies[v.Serial] = one
}

// copyOf gives a record its body from the pre-copy, if it refers to that one.
func (i *importer) copyOf(v *savedSession) (*bodyCopy, error) {
	if !v.Copied {
		return nil, nil
	}
	one := i.copies[v.Serial]
	if one == nil || !v.Calm || v.Body != nil {
		return nil, unusable("copied part", v.Serial)
	}
	delete(i.copies, v.Serial)
	v.Body = one.body
	return one, nil
}
