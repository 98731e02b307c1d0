package relay

import (
	"encoding/binary"
	"time"

	"tidegate/internal/netio"
)

const (
	// pieceCost bounds the visits of a piece of a pass, by their cost.
	pieceCost = 1024
	// copying is the cost of a visit that writes a session. So a piece has 128 of them, in 1 to 4 ms. The successor
	// needs as long for them.
	copying = 8
)

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

// copyCalm is a visit that adds a calm session to the batch, unless the batches have it.
func copyCalm(r *Relay, now time.Time, e *Entry) int {
	s, c := &e.Value, &r.precopy
	switch {
	case c.round == 0:
		return enough
	case c.has(s), !r.table.IsEstablished(e), s.path != nil && s.path.parked.len() > 0:
		return looked
	case s.isRelayed() && s.shortcut != nil: // the kernel counts its datagrams
		return looked
	case isStacked(s):
		return looked
	case !s.isRelayed() && (s.isPending() || s.dirty || s.waits || s.life != joined || !s.isCalm() || !s.client.up ||
		!s.upstream.up): // it is about to change
		return looked
	}
	x := Exporter{relay: r, now: now, naming: c.naming}
	c.batch = binary.AppendUvarint(c.batch, uint64(max(now.Sub(c.began), 0)))
	c.batch = appendPiece(c.batch, x.names(e))
	c.room = x.session(e, c.room[:0])
	c.batch = appendPiece(c.batch, c.room)
	c.count++
	s.copied = c.round
	return copying
}

// keeps reports whether the present round has copied the session, and its record would be the same now. The place of a
// session in a server's line changes with the sessions before it.
func (x *Exporter) keeps(e *Entry) bool {
	s := &e.Value
	return x.copied && x.relay.precopy.has(s) && len(x.closing[e]) == 0 && x.places[e] == 0 &&
		(s.path == nil || s.path.parked.len() == 0)
}

// BeginCopies begins a pre-copy of the sessions for a successor that gets the sockets.
func (r *Relay) BeginCopies(sockets netio.Poller) { r.precopy.start(sockets) }

// EndCopies ends the pre-copy. All sessions count as changed.
func (r *Relay) EndCopies() { r.precopy.stop() }

// EndCopyPass ends a pass of the pre-copy before it has visited all sessions.
func (r *Relay) EndCopyPass() { r.precopy.end() }

// Copies is a piece of a pass of a pre-copy.
type Copies struct {
	Batch []byte // valid until the next pass
	Count int    // sessions in the piece
	More  bool   // the pass goes on
	All   int    // sessions of the Relay
}

// CopySome writes the next piece of a pass, or the first one of a new pass.
func (r *Relay) CopySome(now time.Time) Copies {
	b := r.precopy.piece(r, now)
	return Copies{b, r.precopy.count, r.precopy.pass != nil, r.table.Len()}
}
