package proxy

import (
	"context"
	"encoding/binary"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// A pre-copy shortens the standstill of a handover, as in the live migration of virtual machines. While the loops run,
// they give the successor their sockets to servers, and write all calm sessions. The successor enters them. Further
// passes repeat this for the sessions that have changed meanwhile. At the standstill, an unchanged session needs only
// its ID. The successor removes the sessions that have ended or changed.

const (
	// pieceCost bounds the visits of a piece of a pass, by their cost.
	pieceCost = 1024
	// copying is the cost of a visit that writes a session. So a piece has 128 of them, in 1 to 4 ms. The successor
	// needs as long for them.
	copying = 8
	// mostPasses bounds the passes of a pre-copy.
	mostPasses = 32
	// passesTime bounds the time of a pre-copy.
	passesTime = 10 * time.Second
	// fewChanged ends a pre-copy: the last pass has written at most one of so many sessions.
	fewChanged = 64
	// leastGain is the gain of a pass for a further one: it has written fewer sessions than the one before, or was
	// shorter, by one of so many. On a busy machine with 10,000 sessions, each pass writes about half of the sessions of
	// the one before.
	leastGain = 8
	// restTime is the wait between two looks at a loop that is behind. To copy then would take time that it does not
	// have: peers would repeat themselves, and sessions would end.
	restTime = 2 * time.Millisecond
)

// precopy is the state of a Relay's pre-copy.
type precopy struct {
	last  uint8 // the last round: each upgrade has one
	round uint8 // the present round; 0: none
	// naming names the sockets. It is nil in tests.
	naming netio.Handover
	pass   *walk     // under way; nil: none
	batch  []byte    // of all pieces of the pass
	room   []byte    // for a record
	began  time.Time // time of the piece
	count  int       // sessions in the piece
}

// start begins a round: sessions that earlier rounds have copied count as changed.
func (c *precopy) start(sockets netio.Poller) {
	c.end()
	if c.last++; c.last == 0 {
		c.last = 1
	}
	*c = precopy{last: c.last, round: c.last}
	c.naming, _ = sockets.(netio.Handover)
}

// stop ends the round. All sessions count as changed.
func (c *precopy) stop() {
	c.end()
	*c = precopy{last: c.last}
}

// has reports whether the present round has copied the session, and the session is unchanged.
func (c *precopy) has(p *session) bool { return p.copied != 0 && p.copied == c.round }

// piece writes the next piece of a pass, or the first one of a new pass. It is valid until the next pass.
func (c *precopy) piece(r *Relay, now time.Time) []byte {
	if c.pass == nil {
		c.pass, c.batch = &walk{at: r.table.Walk(), visit: copyCalm}, c.batch[:0]
	}
	before := len(c.batch)
	c.began, c.count = now, 0
	if c.pass.slice(r, now, pieceCost); c.pass.at.Ended() {
		c.pass = nil
	}
	return c.batch[before:]
}

// end ends the pass.
func (c *precopy) end() {
	if c.pass != nil {
		c.pass.at.Stop()
		c.pass = nil
	}
}

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
	until := time.Now().Add(passesTime)
	var g gains
	for turn := 0; turn < mostPasses && time.Now().Before(until); turn++ {
		began, copied, all := time.Now(), 0, 0
		for i, l := range s.loops {
			p := pass{loop: l, number: i, gentle: turn == 0, until: until}
			if err := p.run(ctx, to); err != nil {
				return err
			}
			copied, all = copied+p.copied, all+p.all
		}
		if g.end(copied, all, time.Since(began)) {
			break
		}
	}
	s.precopied.Store(true)
	return nil
}

// gains decide when the passes of a pre-copy end.
type gains struct {
	copied int           // sessions in the last pass; 0: there was none
	took   time.Duration // the last pass
	least  time.Duration // the shortest pass
}

// end adds a pass, and reports whether a further one would find as many changed sessions. Those are about the sessions
// that have changed in this pass. So it does not end after a pass that was slow by chance.
func (g *gains) end(copied, all int, took time.Duration) bool {
	before := *g
	g.copied, g.took, g.least = copied, took, took
	if before.copied == 0 {
		return copied <= all/fewChanged
	}
	g.least = min(took, before.least)
	return copied <= all/fewChanged || copied > before.copied-before.copied/leastGain &&
		took > before.took-before.took/leastGain && took <= g.least*3/2
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

// pass is a pass of a pre-copy over the sessions of a loop.
type pass struct {
	*loop
	number      int
	gentle      bool      // the machine has half of the time for other work
	until       time.Time // it ends, whether it has reached all sessions or not
	copied, all int       // sessions so far, and all of the loop
}

// run makes the pass, in pieces. A piece is with the successor before the loop writes the next one, and the loop keeps
// up with its sockets before that.
func (p *pass) run(ctx context.Context, to Heir) error {
	for first, more := true, true; more; first = false {
		began, behind := time.Now(), false
		b, n := CopiedSessions{Loop: p.number}, 0
		err := p.consult(ctx, stats.WorkHandover, func(r *Relay, now time.Time) {
			c := &r.precopy
			b.Batch, b.At, n = c.piece(r, now), now, c.count
			more, p.all, behind = c.pass != nil, r.table.Len(), r.backlog.behind()
		})
		if err == nil && (n > 0 || first) {
			err = to.GiveSessions(b)
		}
		if p.copied += n; err != nil {
			return err
		}
		rest := time.Duration(0)
		if p.gentle {
			rest = time.Since(began)
		}
		if err := p.rest(ctx, rest, behind); err != nil {
			return err
		}
		if more && time.Now().After(p.until) {
			return p.consult(ctx, stats.WorkHandover, func(r *Relay, _ time.Time) { r.precopy.end() })
		}
	}
	return nil
}

// rest waits for a time, and longer while the loop is behind.
func (p *pass) rest(ctx context.Context, d time.Duration, behind bool) error {
	if d == 0 && !behind {
		return nil
	}
	wake := time.NewTimer(d)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake.C:
		}
		err := p.consult(ctx, stats.WorkHandover, func(r *Relay, _ time.Time) { behind = r.backlog.behind() })
		if err != nil || !behind || time.Now().After(p.until) {
			return err
		}
		wake.Reset(restTime)
	}
}
