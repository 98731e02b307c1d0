package relay

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/netio"
	"tidegate/session"
)

// LoopState is the state of one loop, for the loop of a successor.
type LoopState struct {
	Sockets     []byte   // netio's state of all sockets that do not listen
	Descriptors []int    // of these sockets
	Shared      []byte   // the record of the rest: the last session ID, counters, health of servers
	Sessions    [][]byte // batches of sessions in their order
}

// Export writes all datagrams that may leave, and parks the others. No input may follow before the function that it
// returns has been called, which may be on another goroutine. That function returns the record of everything that
// belongs to no single session, and functions that write the sessions, each a part of them. They may run at the same
// time. The Relay can go on afterwards, for example if a successor fails. copied reports that the successor has the
// last pre-copy, and naming names the sockets.
func (r *Relay) Export(now time.Time, copied bool, naming netio.Handover) func(workers int) ([]byte, []func() []byte) {
	x := BeginExport(r, now, copied, naming)
	return func(workers int) ([]byte, []func() []byte) { return x.shared(nil), x.batches(workers) }
}

func (x *Exporter) batches(workers int) []func() []byte {
	all := slices.Collect(x.relay.table.All)
	all = slices.DeleteFunc(all, func(e *Entry) bool { return isStacked(&e.Value) })
	share := (len(all) + workers - 1) / workers
	batches := make([]func() []byte, min(workers, len(all)))
	spare := x.relay.precopy.batch
	part := cap(spare) / workers
	for i := range batches {
		some := all[min(i*share, len(all)):min((i+1)*share, len(all))]
		room := spare[i*part : i*part : (i+1)*part]
		batches[i] = func() []byte { return x.batch(some, room) }
	}
	return batches
}

// batch writes sessions. Each one is the names of its sockets and its record, both after their length. A session that
// the importer has from the pre-copy is its ID and an empty record. The batch is in b, which the pre-copy has used: the
// system gives memory to a process when it is first used, which takes time.
func (x *Exporter) batch(sessions []*Entry, b []byte) []byte {
	var id, session []byte
	for _, e := range sessions {
		if x.keeps(e) {
			id = binary.AppendUvarint(id[:0], uint64(e.Value.serial))
			b = appendPiece(appendPiece(b, id), nil)
			continue
		}
		session = x.session(e, session[:0])
		b = appendPiece(appendPiece(b, x.names(e)), session)
	}
	return b
}

// appendPiece appends a piece after its length.
func appendPiece(b, piece []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(piece))), piece...)
}

var errCut = errors.New("a batch of sessions is cut off")

var errNoSocket = errors.New("a socket of the session is missing")

// Imported is the result of an Import.
type Imported struct {
	Sessions int
	Lost     int   // sessions that cannot go on
	Why      error // the first reason
}

// each calls visit with each session, until that returns false: the names of its sockets and its record. The record is
// empty if it is one of the pre-copy: then its ID is in place of the names.
func (s *LoopState) each(visit func(names, b []byte) bool) error {
	for _, rest := range s.Sessions {
		for len(rest) > 0 {
			names, more, ok := cutPiece(rest)
			b, more, whole := cutPiece(more)
			if !ok || !whole {
				return errCut
			}
			if !visit(names, b) {
				return nil
			}
			rest = more
		}
	}
	return nil
}

// Import takes over the sessions of a predecessor's Relay, before the first turn. Its state is that of the time at.
func (r *Relay) Import(at time.Time, s *LoopState, sockets netio.Handover) (all Imported, err error) {
	i := BeginImport(r, at)
	if r.entering != nil {
		i.copies, r.entering = r.entering.copies, nil
	}
	if err := i.shared(s.Shared, notOpened); err != nil {
		return all, err
	}
	i.keep(s.unchanged)
	var own []netio.Socket
	err = s.each(func(names, b []byte) bool {
		var lost error
		own, lost = i.next(names, b, sockets, own[:0])
		all.count(lost)
		return true
	})
	if err == nil {
		i.end()
	}
	return all, err
}

// unchanged yields the IDs of the sessions that are as in the pre-copy.
func (s *LoopState) unchanged(yield func(session.ID) bool) {
	_ = s.each(func(names, b []byte) bool {
		id, _ := binary.Uvarint(names)
		return len(b) > 0 || yield(session.ID(id))
	})
}

// next makes the next session again, or ends the import of one of the pre-copy. It returns the memory for the sockets.
func (i *Importer) next(names, b []byte, from netio.Handover, own []netio.Socket) ([]netio.Socket, error) {
	if len(b) > 0 {
		own, found := namedSockets(own, from, names)
		if !found {
			return own, errNoSocket
		}
		return own, i.session(b, own)
	}
	id, _ := binary.Uvarint(names)
	one, err := i.takeCopy(session.ID(id))
	if err != nil {
		return own, err
	}
	own, found := namedSockets(own, from, one.names)
	if !found {
		one.leave(i.relay)
		return own, errNoSocket
	}
	return own, one.settle(i, own)
}

// notOpened opens no socket: the predecessor's configuration still has the listeners of all sessions.
func notOpened(netip.AddrPort) (netio.Socket, error) { return nil, errNoSocket }

// namedSockets appends the imported sockets with some names, and reports whether all were found.
func namedSockets(all []netio.Socket, from netio.Handover, names []byte) (_ []netio.Socket, found bool) {
	for len(names) > 0 {
		var s netio.Socket
		if s, names = from.Named(names); s == nil {
			return all, false
		}
		all = append(all, s)
	}
	return all, true
}

// Add joins the result of another loop.
func (i *Imported) Add(o Imported) {
	i.Sessions += o.Sessions
	i.Lost += o.Lost
	if i.Why == nil {
		i.Why = o.Why
	}
}

// count counts a session, with the error if it cannot go on.
func (i *Imported) count(err error) {
	if err == nil {
		i.Sessions++
		return
	}
	if i.Lost++; i.Why == nil {
		i.Why = err
	}
}

// cutPiece returns the first piece of b and the bytes after it.
func cutPiece(b []byte) (piece, rest []byte, ok bool) {
	n, head := binary.Uvarint(b)
	if head <= 0 || n > uint64(len(b)-head) {
		return nil, nil, false
	}
	return b[head : head+int(n)], b[head+int(n):], true
}

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
