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

// banLedger is the ledger of bans. It finds this node's changes by surveys of the table.
type banLedger struct {
	ledger[netip.Prefix, *record]
	texts   int // bytes of the texts of entries
	turn    uint64
	started bool // the first survey has been made
}

func newBanLedger(node string) *banLedger {
	l := new(banLedger)
	l.ledger = newLedger(node, func(time.Time) bool { return len(l.entries) < maxRecords },
		func(old, new *record) { l.texts += new.texts() - old.texts() })
	return l
}

// survey finds the changes of a node's bans since the last survey, and forgets records that have ended. A ban that is
// found at the start was imposed at its own time.
func (l *banLedger) survey(now time.Time, bans *ratelimit.Bans) {
	l.turn++
	l.beyond = 0
	for ban := range bans.Active(now) {
		l.note(now, ban)
		if e := l.entries[ban.Prefix]; e != nil {
			e.turn = l.turn
		}
	}
	l.forget(now)
	for _, e := range l.entries {
		if e.turn != l.turn && !e.record.removed {
			l.noteRemoval(now, e.record)
		}
	}
	l.started = true
}

// look is survey for one network.
func (l *banLedger) look(now time.Time, p netip.Prefix, bans *ratelimit.Bans) {
	ban, ok := bans.Get(p)
	if ok && ban.Active(now) {
		l.note(now, &ban)
	} else if e := l.entries[p]; e != nil && !e.record.removed && e.record.lives(now) {
		l.noteRemoval(now, e.record)
	}
}

// note compares an active ban of this node with its entry.
func (l *banLedger) note(now time.Time, ban *ratelimit.Ban) {
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
	case e.record.same(&fresh):
		return
	default:
		fresh.changed = later(now, e.record.changed)
	}
	kept := fresh // most surveys find no change, and allocate nothing
	l.change(&kept)
}

// noteRemoval records that an active ban is gone from this node.
func (l *banLedger) noteRemoval(now time.Time, r *record) {
	l.change(&record{
		ban: ratelimit.Ban{Prefix: r.ban.Prefix, Until: r.ban.Until}, removed: true, changed: later(now, r.changed),
		node: l.node,
	})
}

// fit takes the texts of a record of the bucket away if there is no room for them. A rogue member can write texts of a
// kilobyte into all records, and each node keeps them.
func (l *banLedger) fit(r *record) {
	room := maxTexts - l.texts
	if e := l.entries[r.ban.Prefix]; e != nil {
		room += e.record.texts()
	}
	if r.texts() <= room {
		return
	}
	if r.ban.Reason, r.node = "", ""; r.ban.Author != ratelimit.Automatic {
		r.ban.Author = ""
	}
}
