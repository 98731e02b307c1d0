package simnet

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

// Weather is the treatment of datagrams on their way. The zero value delivers each at once.
type Weather struct {
	Loss        float64       // share of datagrams lost, 0 to 1
	Duplication float64       // share of datagrams sent twice; each copy has its own fate
	Latency     time.Duration // in one direction
	Jitter      time.Duration // added to the latency, evenly from 0 up to this; datagrams may overtake each other
	MTU         int           // longest UDP payload in bytes; longer datagrams vanish; 0: any
	Bandwidth   int           // bytes per second and direction; 0: unlimited
	Backlog     time.Duration // longest wait for bandwidth; datagrams beyond are dropped; 0: unlimited
	Corruption  float64       // share of datagrams that arrive with one bit altered; streams have a checksum
}

// SetWeather changes the weather of all paths without their own weather.
func (n *Net) SetWeather(w Weather) { n.weather = w }

// SetPath gives one direction between two addresses its own weather. Weather{Loss: 1} cuts it.
func (n *Net) SetPath(from, to netip.AddrPort, w Weather) {
	n.stateOf(path{from, to}).own = &w
}

// SetPaths gives many directions their own weather at once. of returns nil for a direction with the common weather.
func (n *Net) SetPaths(of func(from, to netip.AddrPort) *Weather) { n.pathWeather = of }

// path is one direction between two addresses.
type path struct{ from, to netip.AddrPort }

// pathState is a path's state.
type pathState struct {
	own       *Weather
	busyUntil time.Time // when the datagrams under way free the bandwidth
	latest    time.Time // when the last of the datagrams under way arrives
	met       Met
}

// Met counts what the weather has done to datagrams. A stream only has losses: pieces that were sent again.
type Met struct{ Lost, Doubled, Overtaking int }

// Met returns what the weather has done on some directions together.
func (n *Net) Met(on func(from, to netip.AddrPort) bool) (total Met) {
	for p, state := range n.paths {
		if on(p.from, p.to) {
			total.Lost += state.met.Lost
			total.Doubled += state.met.Doubled
			total.Overtaking += state.met.Overtaking
		}
	}
	return total
}

// note counts the fates of a datagram's copies that left now.
func (s *pathState) note(now time.Time, fates ...fate) {
	arrived := 0
	for _, f := range fates {
		switch f.kind {
		case lost:
			s.met.Lost++
			continue
		case arrives:
			arrived++
		default:
			continue
		}
		if at := now.Add(f.delay); at.Before(s.latest) {
			s.met.Overtaking++
		} else {
			s.latest = at
		}
	}
	if arrived > 1 {
		s.met.Doubled++
	}
}

func (n *Net) stateOf(p path) *pathState {
	state := n.paths[p]
	if state == nil {
		state = &pathState{}
		n.paths[p] = state
	}
	return state
}

func (n *Net) weatherOf(p path) (*Weather, *pathState) {
	state := n.stateOf(p)
	if state.own != nil {
		return state.own, state
	}
	if n.pathWeather != nil {
		if own := n.pathWeather(p.from, p.to); own != nil {
			return own, state
		}
	}
	return &n.weather, state
}

// corrupt alters one bit of some datagrams.
func (w *Weather) corrupt(rng *rand.Rand, datagram []byte) {
	if w.Corruption > 0 && len(datagram) > 0 && rng.Float64() < w.Corruption {
		datagram[rng.IntN(len(datagram))] ^= 1 << rng.IntN(8)
	}
}

// fateOf decides the fate of one copy of a datagram of the given size.
func (w *Weather) fateOf(rng *rand.Rand, state *pathState, now time.Time, size int) fate {
	if w.MTU > 0 && size > w.MTU {
		return fate{kind: tooLong}
	}
	if w.Loss > 0 && rng.Float64() < w.Loss {
		return fate{kind: lost}
	}
	delay := w.Latency
	if w.Jitter > 0 {
		delay += time.Duration(rng.Int64N(int64(w.Jitter)))
	}
	if w.Bandwidth > 0 {
		wait := max(state.busyUntil.Sub(now), 0)
		if w.Backlog > 0 && wait > w.Backlog {
			return fate{kind: overflowed}
		}
		wait += time.Duration(size) * time.Second / time.Duration(w.Bandwidth)
		state.busyUntil = now.Add(wait)
		delay += wait
	}
	return fate{kind: arrives, delay: delay}
}
