package riptide

import (
	"time"

	"tidegate/codec"
)

// Times of the library's resends, and of ours. docs/protocols/riptide.md#resends
const (
	firstResend   = 50 * time.Millisecond // while no round trip has been measured
	minimumResend = 10 * time.Millisecond
	tickResend    = 30 * time.Millisecond // of our first one, for a peer that reads its socket at 60 Hz
)

// leastWhole is the shortest round trip that counts between server and player. A server resends after 1.2 times what
// we tell it. It does so before it reads its socket, so a time below its tick sends each message twice. 60 ms exceed a
// tick of 20 Hz. 15 sends then last for 0.9 s or longer.
const leastWhole = 50 * time.Millisecond

// mostStarved is the number of messages in a row that were sent several times before their acknowledgement. Those
// measure nothing if the path loses the first transmission. So many show that the path has become slower.
const mostStarved = 4

// patientSends is the number of transmissions after which a message is sent again at a slower pace. The library's times
// would give a connection on a short path up after 150 ms. Its own ticks are too coarse for that, and a player far from
// its server resends more slowly. So from then on we wait so long that 15 sends take at least as long as the player's.
const patientSends = 5

// patientResend is the least of these waits. A peer of 20 Hz measures 1 to 2 ticks and repeats in whole ticks. So its
// 15 sends last for more than 1 s, also on a LAN, and ours for 1.27 s.
const patientResend = 110 * time.Millisecond

// rtt is the smoothed round-trip time: seven parts of the old value and three parts of the new one, at least a
// millisecond.
type rtt struct {
	Smooth  time.Duration    `cbor:"1,keyasint,omitempty"` // zero until measured
	Own     bool             `cbor:"3,keyasint,omitempty"` // a sample was our own measurement, not the peer's figure
	Starved uint8            `cbor:"4,keyasint,omitempty"` // messages in a row that were sent several times
	Far     time.Duration    `cbor:"5,keyasint,omitempty"` // between the proxy and the far peer; zero: unknown
	Slowest [2]time.Duration `cbor:"6,keyasint,omitempty"` // longest samples of this heartbeat and of the one before
}

// measure takes a sample of our own.
func (r *rtt) measure(sample time.Duration) {
	if !r.Own {
		r.Own, r.Smooth = true, 0
	}
	r.Starved = 0
	r.sample(sample)
	r.Slowest[0] = max(r.Slowest[0], sample)
}

// turn begins another heartbeat.
func (r *rtt) turn() { r.Slowest = [2]time.Duration{0, r.Slowest[0]} }

// starve takes the time from the first transmission of a message to its acknowledgement. The message was sent several
// times.
func (r *rtt) starve(since time.Duration) {
	if r.Starved++; r.Starved >= mostStarved {
		r.Starved, r.Smooth = 0, max(r.Smooth, since)
	}
}

// claim takes the peer's figure, until we have measured ourselves.
func (r *rtt) claim(sample time.Duration) {
	if !r.Own {
		r.sample(sample)
	}
}

func (r *rtt) sample(d time.Duration) {
	d = max(d, time.Millisecond)
	if r.Smooth == 0 {
		r.Smooth = d
		return
	}
	r.Smooth = (7*r.Smooth + 3*d) / 10
}

// resend returns how long a reliable message waits for its acknowledgement after the given number of sends. The first
// time it waits for the slowest of late. A peer acknowledges in the ticks of its game loop.
func (r *rtt) resend(sends uint8) time.Duration {
	if r.Smooth == 0 {
		return firstResend
	}
	after := max(minimumResend, r.Smooth*6/5)
	if sends == 1 {
		after = max(tickResend, after, r.Slowest[0]*6/5, r.Slowest[1]*6/5)
	}
	if sends >= patientSends {
		after = max(after, r.whole()*5/3, patientResend)
	}
	return after
}

// whole returns the round trip between server and player.
func (r *rtt) whole() time.Duration { return max(r.Smooth+r.Far, leastWhole) }

// milliseconds returns the round trip between server and player as a heartbeat tells it, or -1 if there is none.
func (r *rtt) milliseconds() int16 {
	if r.Smooth == 0 {
		return -1
	}
	return int16(min(r.whole().Milliseconds(), 1<<15-1))
}

var _ codec.Relayer = (*Conn)(nil)

// FarRTT implements codec.Relayer. Heartbeats tell it to a server, in milliseconds, and a client measures it.
func (c *Conn) FarRTT(d time.Duration) (changed bool) {
	d = d.Truncate(time.Millisecond)
	changed = d != c.rtt.Far
	c.rtt.Far = d
	return changed
}

// ServerRTT implements codec.Relayer. An answer waits for half a tick in the mean and for a whole one at most. A single
// answer that took longer was late for another reason.
func (c *Conn) ServerRTT() time.Duration {
	r := &c.rtt
	return max(r.Smooth, min(2*r.Smooth, max(r.Slowest[0], r.Slowest[1])))
}
