package fleet

import (
	"net/netip"
	"time"
)

// maxDrains bounds the game servers of which a node shares drains. Drains beyond it hold only at their node. A test
// lowers it.
var maxDrains = 10_000

// drainEntry is a node's knowledge of one game server.
type drainEntry struct {
	drainRecord
	revision uint64 // of the bucket's record; 0: the bucket has none
	refused  bool   // the bucket has a newer record, which has not arrived yet
}

// drainLedger merges the drains of this node with those of the bucket. It has no I/O and no clock. As in ledger, the
// bucket's order decides, except for the changes in open. It hears of changes by this node's operators, and does not
// compare tables: a server that a node does not list any more stays drained.
type drainLedger struct {
	node    string
	games   GameServers
	entries map[gameServer]*drainEntry
	open    map[gameServer]struct{} // changes of this node that the bucket does not have yet

	conflicts uint64
	beyond    uint64 // drains without room since begin
}

// apply gives the game servers of this node the state of an entry.
func (l *drainLedger) apply(e *drainEntry) {
	since := time.Time{}
	if e.drained {
		since = e.changed
	}
	l.games.SetFleetDrain(e.server.upstream, e.server.addr, since)
}

// hasRoom reports whether the ledger has room for another server. It forgets records without effect first.
func (l *drainLedger) hasRoom(now time.Time) bool {
	if len(l.entries) < maxDrains {
		return true
	}
	for s, e := range l.entries {
		if !e.lives(now) {
			delete(l.entries, s)
			delete(l.open, s)
		}
	}
	return len(l.entries) < maxDrains
}

// note records a change by an operator of this node. It reports whether the fleet has a record of the server.
func (l *drainLedger) note(now time.Time, s gameServer, drained bool) bool {
	e := l.entries[s]
	switch {
	case e == nil && !drained:
		return false
	case e == nil && (!s.valid() || !l.hasRoom(now)):
		l.beyond++
		return false
	case e == nil:
		e = &drainEntry{drainRecord: drainRecord{server: s, changed: now}}
		l.entries[s] = e
	case e.drained == drained:
		l.apply(e)
		return drained
	default:
		e.changed = later(now, e.changed)
	}
	e.drained, e.node = drained, l.node
	l.open[s] = struct{}{}
	l.apply(e)
	return true
}

// take merges a record of the bucket. It reports whether the record replaces the node's own.
func (l *drainLedger) take(now time.Time, r drainRecord, revision uint64) bool {
	if !r.lives(now) {
		l.gone(now, r.server, revision)
		return false
	}
	e := l.entries[r.server]
	if e == nil {
		if !l.hasRoom(now) {
			l.beyond++
			return false
		}
		e = &drainEntry{drainRecord: r, revision: revision}
		l.entries[r.server] = e
		l.apply(e)
		return true
	}
	if revision <= e.revision {
		return false // written by this node
	}
	e.revision, e.refused = revision, false
	if _, open := l.open[r.server]; open && e.drained != r.drained {
		l.conflicts++
		if e.beats(&r) {
			return false
		}
	}
	delete(l.open, r.server)
	e.drainRecord = r
	l.apply(e)
	return true
}

// gone says that the bucket has no valid record of a server. A record of this node that still has an effect is written
// again.
func (l *drainLedger) gone(now time.Time, s gameServer, revision uint64) {
	e := l.entries[s]
	if e == nil || revision != 0 && revision <= e.revision {
		return
	}
	e.revision, e.refused = revision, false
	if e.lives(now) {
		l.open[s] = struct{}{}
	}
}

// written says that the bucket has taken this node's record, unless the node has changed it meanwhile.
func (l *drainLedger) written(r *drainRecord, revision uint64) {
	e := l.entries[r.server]
	if e == nil || revision <= e.revision {
		return // the reader was faster
	}
	e.revision = revision
	if e.drainRecord == *r {
		delete(l.open, r.server)
	}
}

// begin starts a reading of the whole bucket, which may be a new one.
func (l *drainLedger) begin() {
	l.beyond = 0
	for _, e := range l.entries {
		e.revision, e.refused = 0, false
	}
}

// end completes the reading. Records that the bucket lacks are written again. A drain without a record is one that a
// predecessor has left: the fleet gets it too.
func (l *drainLedger) end(now time.Time, drained map[string][]netip.AddrPort) {
	for s, e := range l.entries {
		if e.revision == 0 && e.lives(now) {
			l.open[s] = struct{}{}
		}
	}
	for upstream, addrs := range drained {
		for _, addr := range addrs {
			if s := (gameServer{upstream, addr}); l.entries[s] == nil {
				l.note(now, s, true)
			}
		}
	}
}
