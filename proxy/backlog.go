package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Players and strangers wait in one buffer of the kernel's, which holds about 2,700 small datagrams, or 960 of a
// network card that takes a page for each, and then drops both alike. So it must be emptied faster than it fills: when
// more has been read without finding it empty than may wait at once, strangers are read and not listened to, but for
// one in some, who may be honest. That costs a fifth of an answer. Where the kernel has a gate for strangers, they
// never get that far.
const (
	someBacklog = 256 // a loop that has so many to read at once is behind
	mostBacklog = 512
	heardOf     = 8 // one stranger of so many is listened to beyond
)

// Answers to strangers that are no larger than what they answer harm nobody, but take longer than all else that is done
// about a stranger. A loop sends so many a second, and a network (IPv4 /24, IPv6 /48) gets so many of them: enough for
// 10,000 RakNet players to join within a second, 250 of them from one network.
const (
	repliesOverall = 20_000
	repliesNetwork = 500
)

func newReplies(seed uint64) *ratelimit.Budget {
	return ratelimit.NewBudget(ratelimit.Rates{Overall: repliesOverall, Network: repliesNetwork}, seed)
}

// backlog is how far a loop is behind with reading. Where nobody tells that there is nothing left, nothing is known.
type backlog struct {
	tells bool
	told  bool      // that strangers are not listened to
	read  int       // clients' datagrams since there was nothing left
	lossy time.Time // until when what players say may be lost for that
}

// lossyFor is how long players may suffer from a buffer that was full: until what was lost has been sent again.
const lossyFor = 5 * time.Second

// count counts a client's datagram. The buffer of one that has so many to read may have been full.
func (b *backlog) count(now time.Time) {
	if b.read++; b.overrun() {
		b.lossy = now.Add(lossyFor)
	}
}

// excuse has a client's connection not be given up for what we may have lost of it.
func (b *backlog) excuse(now time.Time, client codec.Conn) {
	if now.Before(b.lossy) {
		if e, ok := client.(codec.LossTolerant); ok {
			e.TolerateLoss(b.lossy)
		}
	}
}

// behind reports whether more waited than a loop that keeps up ever has.
func (b *backlog) behind() bool { return b.tells && b.read > someBacklog }

// overrun reports whether more waited than the kernel's gate would ever let come of strangers.
func (b *backlog) overrun() bool { return b.tells && b.read > mostBacklog }

// sheds reports whether the stranger whose datagram was read last is not listened to.
func (b *backlog) sheds() bool { return b.overrun() && b.read%heardOf != 0 }

// InputDrained tells the Relay that its sockets had nothing left to read.
func (r *Relay) InputDrained() {
	r.backlog = backlog{tells: true, lossy: r.backlog.lossy}
	r.known.gate.Drained()
}

// known tells the kernel's gate which clients are no strangers.
type known struct {
	gate    *shield.Gate // in front of the listeners' sockets; nil: none
	changes uint64       // how many clients became known, or unknown again
}

// add notes that a client of a listener is no stranger any more. Where no filter sees the client's own address there
// is nothing to note.
func (k *known) add(d *listener, client netip.AddrPort) {
	if d.stream || d.proxies != nil {
		return
	}
	k.changes++
	k.gate.Know(client, d.port)
}

// remove notes that a client who was known has left.
func (k *known) remove(d *listener, client netip.AddrPort) {
	if d.stream || d.proxies != nil {
		return
	}
	k.changes++
	k.gate.Forget(client, d.port)
}

// eachKnown calls f for each client who has a session and has answered: who is no stranger.
func (t sessionTable) eachKnown(f func(client netip.AddrPort)) {
	for e := range t.All {
		if e.Value.isKnown() {
			f(e.Key.Client)
		}
	}
}

// shed drops a stranger's datagram for want of time. The first of many is told of as any drop, and the others are
// counted: nothing may cost less.
func (l *dropLog) shed(now time.Time, b *backlog, d *listener, from netip.AddrPort, size int) {
	if !b.told {
		b.told = true
		l.add(now, dropped{stats.DropOverload, d, from, size, nil})
		return
	}
	l.turn++
	l.counters.Drops[stats.DropOverload]++
	d.drops.Drops[stats.DropOverload]++
	l.journal.lines.suppressed[stats.DropOverload]++
}
