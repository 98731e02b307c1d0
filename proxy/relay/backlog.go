package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Clients and strangers wait in one receive buffer of the kernel. It holds about 2,700 small datagrams, or 960 with a
// network card that uses a page for each. A full buffer drops both alike. So the loop must empty it faster than it
// fills. When the loop has read more than mostBacklog datagrams without finding the buffer empty, it reads strangers
// and drops them. It still handles one in heardOf, which may be honest. Such a drop costs a fifth of an answer. Where
// the kernel has a gate for strangers, their datagrams never reach the loop.
const (
	someBacklog = 256 // a loop with more datagrams to read at once is behind
	mostBacklog = 512
	heardOf     = 8 // beyond mostBacklog, one stranger's datagram in so many is handled
)

// Answers to strangers that are no larger than the question cannot amplify. But they cost more than all other work on
// a stranger. A loop sends so many a second in all, and so many to one network (IPv4 /24, IPv6 /48). That lets 10,000
// RakNet clients join within a second, 250 of them from one network.
const (
	repliesOverall = 20_000
	repliesNetwork = 500
)

func newReplies(seed uint64) *ratelimit.Budget {
	return ratelimit.NewBudget(ratelimit.Rates{Overall: repliesOverall, Network: repliesNetwork}, seed)
}

// backlog measures how far a loop is behind with reading. A backend that never reports an empty buffer gives no
// measure.
type backlog struct {
	tells bool
	told  bool      // the drops of this flood were reported
	read  int       // clients' datagrams since the buffer was empty
	lossy time.Time // until then a full buffer may have lost clients' datagrams
}

// lossyFor is how long clients may suffer from a buffer that was full: until the lost datagrams have been sent again.
const lossyFor = 5 * time.Second

// count counts a client's datagram. With so many to read, the buffer may have been full.
func (b *backlog) count(now time.Time) {
	if b.read++; b.overrun() {
		b.lossy = now.Add(lossyFor)
	}
}

// excuse tells a client's connection to ignore losses that our own full receive buffer may have caused.
func (b *backlog) excuse(now time.Time, client codec.Conn) {
	if now.Before(b.lossy) {
		if e, ok := client.(codec.LossTolerant); ok {
			e.TolerateLoss(b.lossy)
		}
	}
}

// behind reports whether more datagrams waited than a loop that keeps up ever has.
func (b *backlog) behind() bool { return b.tells && b.read > someBacklog }

// overrun reports whether more datagrams waited than the kernel's gate would ever let strangers send.
func (b *backlog) overrun() bool { return b.tells && b.read > mostBacklog }

// sheds reports whether a stranger's datagram, if it was the last one read, is dropped.
func (b *backlog) sheds() bool { return b.overrun() && b.read%heardOf != 0 }

// shed drops a stranger's datagram because the loop is overloaded. The first of many is logged as any drop is. The
// others are only counted, since this path must be the cheapest.
func (l *dropLog) shed(now time.Time, b *backlog, listener *listener, from netip.AddrPort, size int) {
	if !b.told {
		b.told = true
		l.add(now, dropped{stats.DropOverload, listener, from, size, nil})
		return
	}
	l.turn++
	l.has(stats.FateDropped)
	l.counters.Drops[stats.DropOverload]++
	listener.drops.Drops[stats.DropOverload]++
	l.journal.lines.suppressed[stats.DropOverload]++
}
