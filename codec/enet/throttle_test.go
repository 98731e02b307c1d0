package enet

import (
	"math/rand/v2"
	"testing"
	"time"
)

// libraryThrottle is the throttle of the library, by the integers of its documentation. It has the default steps.
type libraryThrottle struct {
	value                         uint32
	last, lastWidth, low, wide    uint32
	mean, deviation, began, since uint32 // began and since are 0 before the first round trip
}

// sample takes a round trip in milliseconds.
func (l *libraryThrottle) sample(now, m uint32) {
	m = max(m, 1)
	if l.since == 0 {
		l.mean, l.deviation = m, (m+1)/2
	} else {
		switch {
		case l.last <= l.lastWidth:
			l.value = 32
		case m <= l.last:
			l.value = min(l.value+2, 32)
		case m > l.last+2*l.lastWidth:
			l.value -= min(l.value, 2)
		}
		l.deviation -= l.deviation / 4
		if m >= l.mean {
			l.mean, l.deviation = l.mean+(m-l.mean)/8, l.deviation+(m-l.mean)/4
		} else {
			l.mean, l.deviation = l.mean-(l.mean-m)/8, l.deviation+(l.mean-m)/4
		}
	}
	l.low, l.wide, l.since = min(l.low, l.mean), max(l.wide, l.deviation), now
	if l.began == 0 || now-l.began >= 5000 {
		l.last, l.lastWidth, l.low, l.wide, l.began = l.low, max(l.wide, 1), l.mean, l.deviation, now
	}
}

// TestThrottle gives a connection 20 acknowledgements a second over several paths. Its throttle is at all times that of
// the library. It drops nothing while a path is steady, or changes by few milliseconds.
func TestThrottle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ms := func(base, spread float64) time.Duration {
		return time.Duration((base + spread*rng.Float64()) * float64(time.Millisecond))
	}
	for _, test := range []struct {
		name          string
		before, after func() time.Duration // the round trip until 12 s, and then
		drops         bool
	}{
		{"local", func() time.Duration { return ms(0.2, 0.05) }, func() time.Duration { return ms(0.6, 0.05) }, false},
		{"2 ms more", func() time.Duration { return ms(50, 0.2) }, func() time.Duration { return ms(52, 0.2) }, false},
		{"long", func() time.Duration { return ms(600, 5) }, func() time.Duration { return ms(600, 5) }, false},
		{"uneven", func() time.Duration { return ms(20, 60) }, func() time.Duration { return ms(20, 90) }, true},
		{"full", func() time.Duration { return ms(50, 1) }, func() time.Duration { return ms(150, 50) }, true},
	} {
		o := Options{}.withDefaults()
		c := newConn(&o, start, secrets{})
		library := libraryThrottle{value: 32, last: 500, low: 500}
		dropped := 0
		for at := 50 * time.Millisecond; at < 30*time.Second; at += 50 * time.Millisecond {
			m := test.before()
			if at >= 12*time.Second {
				m = test.after()
			}
			c.measure(start.Add(at), &sentCommand{sentAt: start.Add(at - m)}, 0)
			library.sample(uint32(at.Milliseconds()), uint32(m.Milliseconds()))
			if c.throttle.value != library.value {
				t.Fatalf("%s: the throttle is %d after %v, that of the library %d", test.name, c.throttle.value, at, library.value)
			}
			if c.throttle.drops() {
				dropped++
			}
		}
		if test.drops != (dropped > 0) {
			t.Errorf("%s: %d unreliable messages dropped", test.name, dropped)
		}
	}
}
