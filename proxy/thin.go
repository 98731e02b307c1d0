package proxy

import (
	"net/netip"
	"syscall"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
)

// Where the kernel has no gate for strangers, for want of the right to use eBPF, a classic filter lets fewer of them
// pass while a loop is behind: one of 16, and of those again one of 4, until the loop keeps up. A stranger passes with
// all it says for a while, and then others do: it takes several datagrams to come in.
const (
	thinFirst  = 16
	thinFactor = 4
	thinMost   = 256                    // one of so many passes at least
	thinEvery  = 20 * time.Millisecond  // until what was done shows: what waits already is to be read first
	thinCalm   = time.Second            // until more are let pass again
	thinBear   = 50_000                 // strangers a second are no reason to let fewer pass
	thinTurn   = 500 * time.Millisecond // that a stranger has to come in
	thinRenew  = 200 * time.Millisecond // until the filter is told of those who have come in since
	thinDoors  = 64                     // beyond so many listeners, filters take longer to change than they save
)

// strangerSampler does that for a loop.
type strangerSampler struct {
	one     int // of so many strangers passes
	clients *shield.ClientBitmap
	known   uint64    // the Relay's knownChanges when the filters were told
	changed time.Time // when one was
	turned  time.Time // when other strangers got their turn
	renewed time.Time
	told    int       // how many filters have been since
	telling bool      // others are still to be
	behind  time.Time // when the loop was last
	looked  time.Time // at what the kernel has dropped
	dropped uint32    // of the kernel until then
}

// turn is called at the end of each of the loop's turns.
func (t *strangerSampler) turn(now time.Time, r *Relay) {
	if r.draining || len(r.listeners) > thinDoors {
		t.one = 0 // a successor may have its own filters there
		return
	}
	behind := r.backlog.behind()
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
	case t.known != r.known.changes && now.Sub(t.renewed) >= thinRenew:
		t.renew(now, r)
	}
}

// due is when turn wants to be called at the latest; zero: whenever.
func (t *strangerSampler) due() time.Time {
	switch {
	case t.telling:
		return t.renewed
	case t.one <= 1:
		return time.Time{}
	}
	return codec.Earliest(t.calm(), t.turned.Add(thinTurn))
}

// calm is when the loop has kept up for long enough, if it does until then.
func (t *strangerSampler) calm() time.Time {
	latest := t.changed
	for _, other := range [...]time.Time{t.behind, t.looked} {
		if other.After(latest) {
			latest = other
		}
	}
	return latest.Add(thinCalm)
}

// bears reports whether the loop could bear it if one of so many of the strangers passed who have come since the last
// look.
func (t *strangerSampler) bears(now time.Time, r *Relay, one int) bool {
	dropped, took := t.dropped, now.Sub(t.looked)
	t.look(now, r)
	return float64(t.dropped-dropped) <= float64(thinBear*max(one, 1))*took.Seconds()
}

// look asks the kernel how many it has dropped at all listeners.
func (t *strangerSampler) look(now time.Time, r *Relay) {
	t.looked, t.dropped = now, 0
	for _, d := range r.listeners {
		if s, ok := netio.ListenerOf(d.socket).(netio.KernelDropCounter); ok {
			t.dropped += s.KernelDrops()
		}
	}
}

func (t *strangerSampler) change(now time.Time, r *Relay, one int) {
	t.one, t.changed, t.turned = one, now, now
	t.clients = nil
	if one > 1 {
		t.clients = shield.NewClientBitmap(one)
	}
	t.renew(now, r)
	t.look(now, r)
}

// renew begins to tell the filters whom the Relay knows now, or, when all may pass, to take that away.
func (t *strangerSampler) renew(now time.Time, r *Relay) {
	t.renewed, t.known = now, r.known.changes
	if t.clients != nil {
		known := 0
		r.table.eachKnown(func(netip.AddrPort) { known++ })
		t.clients.Clear(known)
		r.table.eachKnown(t.clients.Know)
	}
	t.told = 0
	t.tell(r)
}

// tell tells the next filters: one a turn, or some that are small, as it takes up to 2 ms in which nothing is read.
func (t *strangerSampler) tell(r *Relay) {
	last := min(t.told+t.clients.Batch(), len(r.listeners)) // there may be fewer since a reload
	for ; t.told < last; t.told++ {
		t.tellDoor(r, t.told)
	}
	t.telling = last < len(r.listeners)
}

func (t *strangerSampler) tellDoor(r *Relay, i int) {
	l := &r.settings.Listeners[i]
	if socket, ok := netio.ListenerOf(r.listeners[i].socket).(syscall.Conn); ok && l.Shieldable() == nil {
		_ = guardClassic(socket, l, t.clients) // without it the buffer may overflow, as on other systems
	}
}
