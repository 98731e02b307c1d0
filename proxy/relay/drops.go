package relay

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// mostRemembered and rememberedOf choose the drops to remember in a flood. To remember all of them would take as long
// as all other work on them.
const (
	mostRemembered = 32 // the first ones of a turn
	rememberedOf   = 8  // then one of so many
)

// dropped is a datagram or message that goes no further.
type dropped struct {
	why  stats.Drop
	at   *listener
	from netip.AddrPort
	size int   // in bytes
	err  error // may be nil; names the rule or limit
}

// dropLog counts drops, remembers the last ones, and logs some of them.
type dropLog struct {
	counters *stats.Counters
	journal  *journal
	recent   *stats.Recent
	turn     int        // drops in this turn
	fate     stats.Fate // of the datagram that the Relay is receiving
}

// has notes a fate of the datagram that the Relay is receiving.
func (l *dropLog) has(f stats.Fate) { l.fate = max(l.fate, f) }

// add is count for the datagram that the Relay is receiving.
func (l *dropLog) add(now time.Time, d dropped) {
	l.has(stats.FateDropped)
	l.count(now, d)
}

// passes adds a drop if a datagram has a fault. It reports whether there is none.
func (l *dropLog) passes(now time.Time, at *listener, from netip.AddrPort, size int, f admission.Fault) bool {
	if f.Drops {
		l.add(now, dropped{f.Why, at, from, size, f.Err})
	}
	return !f.Drops
}

// shed drops a stranger's datagram because the loop is overloaded. The first of many is logged as any drop is. The
// others are only counted, since this path must be the cheapest.
func (l *dropLog) shed(now time.Time, b *admission.Backlog, listener *listener, from netip.AddrPort, size int) {
	if b.Tell() {
		l.add(now, dropped{stats.DropOverload, listener, from, size, nil})
		return
	}
	l.turn++
	l.has(stats.FateDropped)
	l.counters.Drops[stats.DropOverload]++
	listener.drops.Drops[stats.DropOverload]++
	l.journal.lines.suppressed[stats.DropOverload]++
}

// errMaxMessage names the key that ended a session.
var errMaxMessage = errors.New("a message beyond max_message of its protocol")

// countGiant counts a message that was too large, and so ended its connection.
func (l *dropLog) countGiant(now time.Time, e *Entry, why codec.Reason) {
	if why == codec.Overflow {
		l.count(now, dropped{stats.DropMaxMessage, e.Value.listener, e.Key.Client, 0, errMaxMessage})
	}
}

// count counts a drop, remembers it, and logs it within the journal's limits.
func (l *dropLog) count(now time.Time, d dropped) {
	l.turn++
	l.counters.Drops[d.why]++
	d.at.drops.Drops[d.why]++
	if d.err != errListPing && (l.turn < mostRemembered || l.turn%rememberedOf == 0) {
		l.recent.Add(now, d.why, d.at.name, d.from, d.size, d.err)
	}
	l.journal.drop(now, d.why, d.at.name, d.from, d.size, d.err)
}
