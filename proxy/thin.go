package proxy

import (
	"syscall"
	"time"

	"tidegate/kernel/shield"
	"tidegate/netio"
)

// Where the kernel has no gate for strangers, for want of the right to use eBPF, a classic filter lets fewer of them pass by
// chance while a loop is behind: one of 16, and of those again one of 4, until the loop keeps up.
const (
	thinFirst   = 16
	thinFactor  = 4
	thinMost    = 256                    // one of so many passes at least
	thinBacklog = 256                    // datagrams read without finding an end, when a loop is behind
	thinEvery   = 10 * time.Millisecond  // until what was done shows
	thinCalm    = time.Second            // until more are let pass again
	thinRenew   = 200 * time.Millisecond // until the filter is told of those who have come in since
	thinDoors   = 64                     // beyond so many listeners, filters take longer to change than they save
)

// thinner does that for a loop.
type thinner struct {
	one     int    // of so many strangers passes
	known   uint64 // the Relay's knownChanges when the filters were told
	changed time.Time
	renewed time.Time
	behind  time.Time // when the loop was last
}

// turn is called at the end of each of the loop's turns.
func (t *thinner) turn(now time.Time, r *Relay) {
	if r.draining || len(r.doors) > thinDoors {
		t.one = 0 // a successor may have its own filters there
		return
	}
	behind := r.backlog.tells && r.backlog.read > thinBacklog
	if behind {
		t.behind = now
	}
	switch {
	case behind && t.one < thinMost && now.Sub(t.changed) >= thinEvery:
		t.change(now, r, max(t.one*thinFactor, thinFirst))
	case t.one <= 1:
	case !now.Before(t.calm()):
		t.change(now, r, t.one/thinFactor)
	case t.known != r.knownChanges && now.Sub(t.renewed) >= thinRenew:
		t.renew(now, r)
	}
}

// due is when turn wants to be called at the latest; zero: whenever.
func (t *thinner) due() time.Time {
	if t.one <= 1 {
		return time.Time{}
	}
	return t.calm()
}

// calm is when the loop has kept up for long enough, if it does until then.
func (t *thinner) calm() time.Time {
	if t.behind.After(t.changed) {
		return t.behind.Add(thinCalm)
	}
	return t.changed.Add(thinCalm)
}

func (t *thinner) change(now time.Time, r *Relay, one int) {
	t.one, t.changed = one, now
	t.renew(now, r)
}

// renew tells the filters whom the Relay knows now, or, when all may pass, takes that away.
func (t *thinner) renew(now time.Time, r *Relay) {
	t.renewed, t.known = now, r.knownChanges
	var sieve *shield.Sieve
	if t.one > 1 {
		sieve = shield.NewSieve(t.one)
		r.eachKnown(sieve.Know)
	}
	for i := range r.settings.Listeners {
		l := &r.settings.Listeners[i]
		if socket, ok := netio.Listening(r.doors[i].socket).(syscall.Conn); ok && l.Shieldable() == nil {
			_ = shield.GuardPlainly(socket, l.FirstBytes(), sieve) // without it the buffer may overflow, as on other systems
		}
	}
}
