package relay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/proxy/relay/saved"
	"tidegate/ratelimit"
	"tidegate/session"
)

// travelAgain moves all sessions to a new Relay, again and again, as they would travel to another machine. It ends
// before the players fall silent: a silent player's session waits, and an RUDP server gives up within a second.
func (w *world) travelAgain(rng *rand.Rand, times int) {
	w.After(time.Duration(100+rng.IntN(150))*time.Millisecond, func() {
		if w.travel(); times > 1 {
			w.travelAgain(rng, times-1)
		}
	})
}

// travel moves all sessions to a new Relay.
func (w *world) travel() {
	w.t.Helper()
	n, old, now := w.proxy, w.proxy.relay, w.Now()
	o := Options{
		Seed: 99, Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms),
		Shared: NewShared(old.born, 99),
	}
	o.Shared.arrivals = old.arrivals // some may still wait
	fresh := New(w.settings, o, n, old.born)
	for e := range old.table.All {
		b, err := old.takeOut(now, e)
		if err != nil {
			w.t.Fatal(err)
		}
		a, err := readArrival(now, b)
		if err == nil {
			err = a.fits(now, fresh)
		}
		if err == nil {
			err = fresh.arrivals.Add(now, a)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if old.table.Len() != 0 || len(old.presence.sessions) != 0 {
		w.t.Errorf("%d sessions and %d identities are left behind", old.table.Len(), len(old.presence.sessions))
	}
	for _, s := range old.pools.Get("arena").Status(now) {
		if s.Sessions != 0 {
			w.t.Errorf("server %v still has %d sessions", s.Addr, s.Sessions)
		}
	}
	n.relay = fresh
	fresh.Attach(0, n.sockets[listenerAddr])
}

// TestTravel plays a session of each pair of protocols while it travels from Relay to Relay. All messages arrive as the
// pair promises.
func TestTravel(t *testing.T) {
	family := udpMembers(oneDialect)
	for _, client := range family {
		for _, upstream := range family {
			t.Run(client.String()+" to "+upstream.String(), func(t *testing.T) {
				for _, seed := range simnet.Seeds(2) {
					matrixRun(t, seed, client, upstream, func(w *world) {
						w.Run(2 * time.Second) // its server has answered to its last socket
						w.travelAgain(rand.New(rand.NewPCG(seed, 8)), 5)
					})
				}
			})
		}
	}
}

// TestTravelToAnotherAddress moves a session to a machine that cannot send from the old address. The session looks for
// a server anew, if its route holds sessions, and otherwise is lost.
func TestTravelToAnotherAddress(t *testing.T) {
	for _, held := range []bool{true, false} {
		w := savedWorld(t, func(r *Route) {
			if held {
				r.Failover.Hold = time.Minute
			}
		})
		p := &w.proxy.relay
		w.proxy.noLocal = true
		w.travel()
		w.Run(10 * time.Second)
		regained, open := (*p).counters.Regained, (*p).table.Len()
		if held && (regained != 1 || open != 1) || !held && open != 0 {
			t.Errorf("held %v: %d sessions, %d have a server again", held, open, regained)
		}
	}
}

// TestStaysHere names the reasons why sessions cannot travel. They go on.
func TestStaysHere(t *testing.T) {
	for name, world := range map[string]func(*testing.T) *world{"held": heldWorld, "half-open": halfOpenWorld} {
		w := world(t)
		r := w.proxy.relay
		for e := range r.table.All {
			if _, err := r.takeOut(w.Now(), e); !errors.Is(err, ErrNotMovable) {
				t.Errorf("%s: %v, want ErrNotMovable", name, err)
			}
		}
		if r.table.Len() != 1 {
			t.Errorf("%s: the session is gone", name)
		}
	}
}

// TestArrivalsAreBounded refuses damaged, old, doubled and too many sessions.
func TestArrivalsAreBounded(t *testing.T) {
	w := savedWorld(t, func(*Route) {})
	r := w.proxy.relay
	var b []byte
	var err error
	for e := range r.table.All {
		if b, err = r.takeOut(w.Now(), e); err != nil {
			t.Fatal(err)
		}
	}
	read := func(b []byte) *Arrival {
		a, err := readArrival(w.Now(), b)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for n := range b {
		if _, err := readArrival(w.Now(), b[:n]); !errors.Is(err, ErrTravel) {
			t.Fatalf("%d of %d bytes: %v, want ErrTravel", n, len(b), err)
		}
	}
	if _, err := readArrival(w.Now(), bytes.Repeat(b, maxTravel/len(b)+1)); !errors.Is(err, ErrTravel) {
		t.Errorf("too many bytes: %v", err)
	}
	var all Arrivals
	now := w.Now()
	first, again := read(b), read(b)
	if err := all.Add(now, first); err != nil {
		t.Error(err)
	}
	if err := all.Add(now, again); !errors.Is(err, ErrTravel) {
		t.Errorf("the same session again: %v", err)
	}
	all.bytes = maxArrivals
	again.Client = playerAddr(7)
	if err := all.Add(now, again); !errors.Is(err, ErrTravel) {
		t.Errorf("too much memory: %v", err)
	}
	all.bytes = first.size
	var next Arrivals
	saved := append(all.save(now), saved.Arrival{Session: b[:len(b)-1]})
	if err := next.restore(now, saved); !errors.Is(err, ErrTravel) || next.count.Load() != 1 {
		t.Errorf("a damaged record: %v, and %d sessions wait", err, next.count.Load())
	}
	if got := all.take(now.Add(2*ArrivalTime), first.key(), nil); got != nil || all.bytes != 0 {
		t.Errorf("after its time: %v, and %d bytes are left", got, all.bytes)
	}
	odd := *first
	odd.Listener = "elsewhere"
	if err := odd.fits(w.Now(), r); !errors.Is(err, ErrTravel) {
		t.Errorf("another listener: %v", err)
	}
	odd = *first
	odd.Route.Protocol, odd.Route.Name, odd.session.Route = "none", "none", "none"
	if err := odd.fits(w.Now(), r); !errors.Is(err, ErrTravel) {
		t.Errorf("another route: %v", err)
	}
	r.table.Limit(session.Limits{Sessions: 10})
	if err := first.room(r, 0); err != nil {
		t.Errorf("no place for half-open sessions: %v", err)
	}
	r.arrivals = &next // one waits
	if err := first.room(r, 9); !errors.Is(err, session.ErrFull) {
		t.Errorf("a full table: %v", err)
	}
	r.draining = true
	if err := first.fits(w.Now(), r); !errors.Is(err, ErrEnded) {
		t.Errorf("while draining: %v", err)
	}
}

// TestForgedArrival lets a stranger send a datagram from another address. The waiting session stays its client's.
func TestForgedArrival(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet.New(raknet.Options{}),
		defaultRoute(raknet.New(raknet.Options{})))
	p := w.connect(codec.Hello{Identity: 70})
	w.Run(time.Second)
	p.deaf, p.mute = true, true
	w.travel()
	w.Inject(0, playerAddr(9), listenerAddr, []byte{0x84, 1, 2, 3})
	w.Run(time.Second)
	if n := w.proxy.relay.table.Len(); n != 0 || w.proxy.relay.arrivals.count.Load() != 1 {
		t.Errorf("%d sessions", n)
	}
	p.deaf, p.mute = false, false
	w.Run(5 * time.Second)
	if n := w.proxy.relay.table.Len(); n != 1 || p.gone() {
		t.Errorf("%d sessions; the player is gone: %v", n, p.gone())
	}
}

// TestArrivalAcrossReplacements replaces the Relay while a session waits for its client. The session waits on, for the
// rest of its time.
func TestArrivalAcrossReplacements(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet.New(raknet.Options{}),
			defaultRoute(raknet.New(raknet.Options{})))
		p := w.connect(codec.Hello{Identity: 70})
		w.Run(time.Second)
		p.deaf, p.mute = true, true
		w.travel()
		for range 2 {
			w.Run(time.Second)
			w.replaceRelay()
		}
		if n := w.proxy.relay.arrivals.count.Load(); n != 1 {
			t.Fatalf("%d sessions wait", n)
		}
		if late {
			w.Run(ArrivalTime - time.Second)
			a := w.proxy.relay.arrivals.take(w.Now(), arrivalKey{w.proxy.relay.listeners[0].name, p.addr, ""}, nil)
			if a != nil {
				t.Error("the session waits for longer than its time")
			}
			continue
		}
		p.deaf, p.mute = false, false
		w.Run(5 * time.Second)
		if n := w.proxy.relay.table.Len(); n != 1 || p.gone() {
			t.Errorf("%d sessions; the player is gone: %v", n, p.gone())
		}
	}
}
