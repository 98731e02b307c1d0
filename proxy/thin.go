package proxy

import (
	"syscall"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/proxy/relay"
)

// Without the right to use eBPF, the kernel has no gate for strangers. Then a classic filter lets fewer strangers
// pass while a loop is behind. First it passes one in 16, and then one in 4 of these, until the loop keeps up. All
// datagrams of a chosen stranger pass for a while, since a client needs several datagrams to join. Then other
// strangers are chosen.
const (
	thinFirst  = 16
	thinFactor = 4
	thinMost   = 256                    // the smallest share of strangers that pass is one in so many
	thinEvery  = 20 * time.Millisecond  // until a change shows: waiting datagrams are read first
	thinCalm   = time.Second            // until more may pass again
	thinBear   = 50_000                 // so many strangers a second are no reason to let fewer pass
	thinTurn   = 500 * time.Millisecond // time for a stranger to join
	thinRenew  = 200 * time.Millisecond // until the filter learns of clients that have joined since
	maxThinned = 64                     // beyond so many listeners, filters take longer to change than they save
)

// strangerSampler controls the classic filters of a loop.
type strangerSampler struct {
	one      int // one in so many strangers passes
	clients  *shield.ClientBitmap
	known    uint64    // the Relay's known.changes at the last renewal
	changed  time.Time // when one last changed
	turned   time.Time // when other strangers were chosen
	renewed  time.Time
	told     int       // number of filters renewed since
	renewing int       // number of renewals so far
	telling  bool      // more filters are still to be renewed
	behind   time.Time // when the loop was last behind
	looked   time.Time // when dropped was read
	dropped  uint32    // the kernel's drops until then
}

// turn is called at the end of each of the loop's turns.
func (t *strangerSampler) turn(now time.Time, r *relay.Relay) {
	if r.Draining() || len(r.Settings().Listeners) > maxThinned {
		t.one = 0 // a successor may have its own filters there
		return
	}
	behind := r.Behind()
	_, changes := r.KnownClients()
	if behind {
		t.behind = now
	}
	switch {
	case t.telling:
		t.tell(r)
	case behind && t.one < thinMost && now.Sub(t.changed) >= thinEvery:
		t.change(now, r, max(t.one*thinFactor, thinFirst))
	case t.one <= 1:
	case !now.Before(t.calm()) && t.bears(now, r, t.one/thinFactor):
		t.change(now, r, t.one/thinFactor)
	case now.Sub(t.turned) >= thinTurn:
		t.turned = now
		t.clients.Next()
		t.renew(now, r)
	case t.known != changes && now.Sub(t.renewed) >= thinRenew:
		t.renew(now, r)
	}
}

// due returns when turn must be called at the latest; zero means no limit.
func (t *strangerSampler) due() time.Time {
	switch {
	case t.telling:
		return t.renewed
	case t.one <= 1:
		return time.Time{}
	}
	return codec.Earliest(t.calm(), t.turned.Add(thinTurn))
}

// calm returns when the loop has kept up for long enough, if it keeps up until then.
func (t *strangerSampler) calm() time.Time {
	latest := t.changed
	for _, other := range [...]time.Time{t.behind, t.looked} {
		if other.After(latest) {
			latest = other
		}
	}
	return latest.Add(thinCalm)
}

// bears reports whether the loop could read one in so many of the strangers that have come since the last look.
func (t *strangerSampler) bears(now time.Time, r *relay.Relay, one int) bool {
	dropped, took := t.dropped, now.Sub(t.looked)
	t.look(now, r)
	return float64(t.dropped-dropped) <= float64(thinBear*max(one, 1))*took.Seconds()
}

// look reads how many datagrams the kernel has dropped at all listeners.
func (t *strangerSampler) look(now time.Time, r *relay.Relay) {
	t.looked, t.dropped = now, 0
	for i := range r.Settings().Listeners {
		if s, ok := netio.ListenerOf(r.ListenerSocket(i)).(netio.KernelDropCounter); ok {
			t.dropped += s.KernelDrops()
		}
	}
}

func (t *strangerSampler) change(now time.Time, r *relay.Relay, one int) {
	t.one, t.changed, t.turned = one, now, now
	t.clients = nil
	if one > 1 {
		t.clients = shield.NewClientBitmap(one)
	}
	t.renew(now, r)
	t.look(now, r)
}

// renew begins to give the filters the Relay's known clients. When all strangers may pass, it begins to remove the
// filters.
func (t *strangerSampler) renew(now time.Time, r *relay.Relay) {
	count, changes := r.KnownClients()
	t.renewed, t.known = now, changes
	clients := t.clients
	if clients == nil {
		t.told = 0
		t.tell(r)
		return
	}
	clients.Clear(count)
	t.renewing++
	mine := t.renewing
	stays := func() bool { return mine == t.renewing } // else another renewal has begun
	r.Ask(now, relay.KnownClients(clients.Know), stays, func() {
		if stays() {
			t.told = 0
			t.tell(r)
		}
	})
}

// tell renews the next filters: one per turn, or several small ones. A renewal takes up to 2 ms, in which nothing is
// read.
func (t *strangerSampler) tell(r *relay.Relay) {
	last := min(t.told+t.clients.Batch(), len(r.Settings().Listeners)) // there may be fewer since a reload
	for ; t.told < last; t.told++ {
		l := &r.Settings().Listeners[t.told]
		if socket, ok := netio.ListenerOf(r.ListenerSocket(t.told)).(syscall.Conn); ok && l.Shieldable() == nil {
			_ = guardClassic(socket, l, t.clients) // without the filter the buffer may overflow, as on other systems
		}
	}
	t.telling = last < len(r.Settings().Listeners)
}
