package enet

import "time"

// throttleScale is the throttle of a sender that drops nothing.
const throttleScale = 32

// throttleStep is the step of the counter for each unreliable message.
const throttleStep = 7

// throttleTerms are the interval in ms and the steps of a throttle. A peer may set those of its sender.
type throttleTerms struct{ interval, acceleration, deceleration uint32 }

var defaultThrottle = throttleTerms{interval: 5000, acceleration: 2, deceleration: 2}

func (t *throttleTerms) parse(b []byte) {
	t.interval, t.acceleration, t.deceleration = be.Uint32(b), be.Uint32(b[4:]), be.Uint32(b[8:])
}

func (t *throttleTerms) append(b []byte) []byte {
	return be.AppendUint32(be.AppendUint32(be.AppendUint32(b, t.interval), t.acceleration), t.deceleration)
}

// throttle decides which unreliable messages are sent. Growing round trips show that the path is full. The throttle
// also scales the window of reliable messages. docs/protocols/enet.md#throttle
type throttle struct {
	terms   throttleTerms
	value   uint32
	counter uint32

	began              time.Time     // start of this interval
	lowest, widest     time.Duration // round trip and deviation of this interval
	lastRTT, lastWidth time.Duration // of the previous interval
}

func newThrottle(now time.Time, terms throttleTerms) throttle {
	return throttle{terms: terms, value: throttleScale, began: now, lowest: initialRTT, lastRTT: initialRTT}
}

// sample takes a round trip that r has already taken.
func (t *throttle) sample(now time.Time, m time.Duration, r *rtt) {
	switch {
	case t.lastRTT <= t.lastWidth:
		t.value = throttleScale
	case m <= t.lastRTT:
		t.value = min(t.value+min(t.terms.acceleration, throttleScale), throttleScale)
	case m > t.lastRTT+2*t.lastWidth:
		t.value -= min(t.value, t.terms.deceleration)
	}
	t.lowest, t.widest = min(t.lowest, r.Mean), max(t.widest, r.Deviation)
	if now.Sub(t.began) >= time.Duration(t.terms.interval)*time.Millisecond {
		t.began = now
		t.lastRTT, t.lastWidth = t.lowest, t.widest
		t.lowest, t.widest = r.Mean, r.Deviation
	}
}

// drops reports whether the next unreliable message is to be dropped.
func (t *throttle) drops() bool {
	t.counter = (t.counter + throttleStep) % throttleScale
	return t.counter > t.value
}

// window scales a window.
func (t *throttle) window(bytes, mtu int) int {
	return max(int(t.value)*bytes/throttleScale, mtu)
}
