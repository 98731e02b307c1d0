package fleet

import (
	"net/netip"
	"time"

	"tidegate/ratelimit"
)

// maxRecords bounds the networks that a node shares. Bans beyond it hold only at their node. A test lowers it.
var maxRecords = 200_000

// maxTexts bounds the texts of all records, in bytes. Further records of other nodes lose theirs. A test lowers it.
var maxTexts = 16 << 20

// entry is a node's knowledge of one network.
type entry struct {
	record
	revision uint64 // of the bucket's record; 0: the bucket has none
	turn     uint64 // the last survey that found the ban in the table
	refused  bool   // the bucket has a newer record, which has not arrived yet
}

// ledger merges the bans of this node with those of the bucket. It has no I/O and no clock. The bucket's order decides
// for all networks, except for those in open: changes of this node that the bucket does not have yet.
type ledger struct {
	node    string
	entries map[netip.Prefix]*entry
	open    map[netip.Prefix]struct{}
	texts   int // bytes of the texts of entries
	turn    uint64
	started bool // the first survey has been made

	conflicts uint64 // changes that met another node's change of the same network
	beyond    uint64 // bans without room since the last survey
}

func newLedger(node string) *ledger {
	return &ledger{node: node, entries: make(map[netip.Prefix]*entry), open: make(map[netip.Prefix]struct{})}
}

// survey finds the changes of a node's bans since the last survey, and forgets records that have ended. A ban that is
// found at the start was imposed at its own time.
func (l *ledger) survey(now time.Time, bans *ratelimit.Bans) {
	l.turn++
	l.beyond = 0
	for ban := range bans.Active(now) {
		l.note(now, ban)
		if e := l.entries[ban.Prefix]; e != nil {
			e.turn = l.turn
		}
	}
	for p, e := range l.entries {
		switch {
		case !e.lives(now):
			l.put(e, record{})
			delete(l.entries, p)
			delete(l.open, p)
		case e.turn != l.turn && !e.removed:
			l.noteRemoval(now, e)
		}
	}
	l.started = true
}

// look is survey for one network.
func (l *ledger) look(now time.Time, p netip.Prefix, bans *ratelimit.Bans) {
	ban, ok := bans.Get(p)
	if ok && ban.Active(now) {
		l.note(now, &ban)
	} else if e := l.entries[p]; e != nil && !e.removed && e.lives(now) {
		l.noteRemoval(now, e)
	}
}

// note compares an active ban of this node with its entry.
func (l *ledger) note(now time.Time, ban *ratelimit.Ban) {
	changed := now
	if !l.started {
		changed = ban.Since
	}
	fresh := record{ban: *ban, changed: changed, node: l.node}
	e := l.entries[ban.Prefix]
	switch {
	case !fresh.writable(), e == nil && len(l.entries) >= maxRecords:
		l.beyond++
		return
	case e == nil:
		e = new(entry)
		l.entries[ban.Prefix] = e
	case e.equal(&fresh):
		return
	default:
		fresh.changed = later(now, e.changed)
	}
	l.put(e, fresh)
	l.open[ban.Prefix] = struct{}{}
}

// noteRemoval records that an active ban is gone from this node.
func (l *ledger) noteRemoval(now time.Time, e *entry) {
	p := e.ban.Prefix
	l.put(e, record{
		ban: ratelimit.Ban{Prefix: p, Until: e.ban.Until}, removed: true, changed: later(now, e.changed), node: l.node,
	})
	l.open[p] = struct{}{}
}

// later returns a time after the change that is replaced. So a node whose clock is late can change a record that it
// knows.
func later(now, replaced time.Time) time.Time {
	if now.After(replaced) {
		return now
	}
	return replaced.Add(1)
}

// take merges a record of the bucket, after look of its network. It reports whether the record replaces the node's own.
func (l *ledger) take(now time.Time, r record, revision uint64) bool {
	p := r.ban.Prefix
	if !r.lives(now) {
		l.gone(now, p, revision)
		return false
	}
	e := l.entries[p]
	if e == nil {
		if len(l.entries) >= maxRecords {
			l.beyond++
			return false
		}
		l.entries[p] = &entry{revision: revision}
		l.put(l.entries[p], r)
		return true
	}
	if revision <= e.revision {
		return false // written by this node
	}
	e.revision, e.refused = revision, false
	if e.equal(&r) {
		delete(l.open, p)
		return false
	}
	if _, open := l.open[p]; open {
		l.conflicts++
		if e.beats(&r, now) {
			return false
		}
		delete(l.open, p)
	}
	l.put(e, r)
	return true
}

// put replaces the record of an entry.
func (l *ledger) put(e *entry, r record) {
	l.texts += r.texts() - e.texts()
	e.record = r
}

// fit takes the texts of a record of the bucket away if there is no room for them. A rogue member can write texts of a
// kilobyte into all records, and each node keeps them.
func (l *ledger) fit(r *record) {
	room := maxTexts - l.texts
	if e := l.entries[r.ban.Prefix]; e != nil {
		room += e.texts()
	}
	if r.texts() <= room {
		return
	}
	if r.ban.Reason, r.node = "", ""; r.ban.Author != ratelimit.Automatic {
		r.ban.Author = ""
	}
}

// gone says that the bucket has no valid record of a network: it has ended, or another program has changed it. A record
// of this node that still has an effect is written again. Revision 0 means that the bucket has forgotten the network.
func (l *ledger) gone(now time.Time, p netip.Prefix, revision uint64) {
	e := l.entries[p]
	if e == nil || revision != 0 && revision <= e.revision {
		return
	}
	e.revision, e.refused = revision, false
	if e.lives(now) {
		l.open[p] = struct{}{}
	}
}

// written says that the bucket has taken this node's record of a network.
func (l *ledger) written(p netip.Prefix, revision uint64) {
	l.entries[p].revision = revision
	delete(l.open, p)
}

// begin starts a reading of the whole bucket, which may be a new one.
func (l *ledger) begin() {
	for _, e := range l.entries {
		e.revision, e.refused = 0, false
	}
}

// end completes the reading. Records that the bucket lacks are written again.
func (l *ledger) end(now time.Time) {
	for p, e := range l.entries {
		if e.revision == 0 && e.lives(now) {
			l.open[p] = struct{}{}
		}
	}
}
