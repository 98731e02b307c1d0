package raknet

import "time"

// Bounds of the congestion window in full datagrams. The first window is that of today's content networks, about 46
// kB: a joining player waits for a map, and losses soon show a narrow path. The minimum is high compared to TCP: the
// game's tick bounds its traffic, and on a lossy path TCP's law would only slow it. maxFlight is below the maximum.
const (
	firstWindow = 32
	leastWindow = 8
	mostWindow  = 4096
)

// heavyLoss is the share of lost datagrams above which loss means congestion even without a visible queue: a shallow
// buffer, or a policer. Wireless paths lose a few in a hundred at random. lossGain is the weight of one datagram in
// the share.
const (
	heavyLoss = 0.15
	lossGain  = 1.0 / 64
)

// mostTrips bounds the round trips of the path that count for one acknowledgement.
const mostTrips = 4

// congestion bounds the bytes in flight (docs/protocols/raknet/recovery.md#recovery-and-congestion). After slow start
// the window grows by one datagram per round trip of the path, counted in bytes. A loss halves the window, once per
// round. As in TCP Veno, this happens only if the loss comes from congestion: datagrams wait in a queue, or many are
// lost. The window does not grow while there is a queue, so that a large message does not delay the game's small ones.
// As in QUIC, a first silence only leads to a probe: one lost ACK may be the reason.
type congestion struct {
	segment int // bytes of a full datagram
	queue   pathQueue

	Window    int     `cbor:"1,keyasint,omitempty"` // bytes that may be in flight
	Threshold int     `cbor:"2,keyasint,omitempty"` // window at which slow start ends
	InFlight  int     `cbor:"3,keyasint,omitempty"` // bytes sent that are neither acknowledged nor lost
	LossShare float64 `cbor:"7,keyasint,omitempty"` // recent share of lost datagrams
	// Recovered is the first datagram whose loss does not belong to a round with a reaction. It is valid if Reduced.
	Recovered Seq24 `cbor:"5,keyasint,omitempty"`
	Limiting  bool  `cbor:"4,keyasint,omitempty"` // the window delayed the last transmission
	Reduced   bool  `cbor:"6,keyasint,omitempty"`
	lossCount       // takes its place for a lagging peer
	// Trips is the number of round trips of the path that an acknowledgement takes, at most mostTrips; 0 means one.
	Trips uint8 `cbor:"12,keyasint,omitempty"`
	// Probing says that after a silence only ProbeRoom bytes may be sent, until there is an acknowledgement.
	Probing   bool  `cbor:"13,keyasint,omitempty"`
	Probed    Seq24 `cbor:"14,keyasint,omitempty"` // the first datagram of the probe
	ProbeRoom int32 `cbor:"15,keyasint,omitempty"`
	// The values before the last reduction, unless silence was its reason.
	BeforeWindow    int `cbor:"16,keyasint,omitempty"`
	BeforeThreshold int `cbor:"17,keyasint,omitempty"`
}

func newCongestion(segment int) congestion {
	return congestion{segment: segment, Window: firstWindow * segment, Threshold: mostWindow * segment}
}

// allows reports whether another datagram may be sent now. leeway is the allowed excess over the window in bytes.
func (c *congestion) allows(leeway int) bool {
	if c.Probing {
		c.Limiting = c.ProbeRoom <= 0
		return int(c.ProbeRoom)+leeway > 0
	}
	c.Limiting = c.InFlight >= c.Window
	return c.InFlight < c.Window+leeway
}

// hasRoom reports the same as allows without leeway, and changes nothing.
func (c *congestion) hasRoom() bool {
	asked := *c
	return asked.allows(0)
}

// usable returns the window, or its minimum while a probe is out.
func (c *congestion) usable() int {
	if c.Probing {
		return min(c.Window, leastWindow*c.segment)
	}
	return c.Window
}

// pace returns a rate of one window per round trip, plus some, so that the window can be filled and grow.
func (c *congestion) pace(roundTrip time.Duration) pace {
	window := int64(c.usable())
	if c.inSlowStart() {
		return pace{2 * window, roundTrip}
	}
	return pace{window + window/4, roundTrip}
}

func (c *congestion) inSlowStart() bool { return c.Window < c.Threshold }

func (c *congestion) sent(size int) {
	c.InFlight += size
	if c.Probing {
		c.ProbeRoom -= int32(size)
	}
}

// acknowledged removes an acknowledged datagram from the bytes in flight. The window grows only if it delayed data.
// Otherwise the path has not been tested.
func (c *congestion) acknowledged(n Seq24, size int) {
	c.InFlight -= size
	c.LossShare -= c.LossShare * lossGain
	if c.queue.Standing {
		c.Threshold = min(c.Threshold, c.Window)
		return
	}
	if !c.Limiting || c.queue.Doubts > 0 || c.inRecovery(n) {
		return
	}
	growth := max(1, c.segment*size/c.Window*int(max(c.Trips, 1)))
	if c.inSlowStart() {
		growth = size
	} else if c.queue.Calm == calmRounds {
		growth = max(growth, size/4)
	}
	c.Window = min(c.Window+growth, mostWindow*c.segment)
}

// answered ends a probe: the peer has acknowledged a datagram. roundTrip is the time that acknowledgements take. If a
// lagging peer holds them back, the window still grows for each round trip of the path.
func (c *congestion) answered(roundTrip time.Duration) {
	c.Probing, c.Trips = false, 1
	if path := c.queue.floor(); path > 0 && c.queue.Lagging {
		c.Trips = uint8(min(max(roundTrip/path, 1), mostTrips))
	}
}

// ponged takes the round trip of a ping. If it shows that the peer is lagging, slow start continues: it ended for the
// sake of a queue that was none.
func (c *congestion) ponged(now, roundTrip time.Duration) {
	if c.queue.ping(now, roundTrip) {
		c.Threshold = mostWindow * c.segment
	}
}

// lost removes a lost datagram from the bytes in flight, and reacts to the loss. next is the number of the next
// datagram.
func (c *congestion) lost(n, next Seq24, size int, silence bool) {
	c.InFlight -= size
	c.endProbe(n)
	c.blame(n, next, silence)
}

// blame reacts to a loss. If congestion is the cause, it halves the window, once for all datagrams that were in flight
// together: those count for no later reduction. Silence, unlike a NACK, also resets the window to its minimum, because
// no answer arrived at all.
func (c *congestion) blame(n, next Seq24, silence bool) {
	c.addLoss(n)
	if c.inRecovery(n) {
		return
	}
	c.LossShare += (1 - c.LossShare) * lossGain
	if !silence && !c.queue.Standing && !c.isHeavy() {
		return
	}
	c.queue.Calm = 0
	c.Recovered, c.Reduced = next, true
	c.BeforeWindow, c.BeforeThreshold = c.Window, c.Threshold
	c.LossShare = 0
	c.restartLosses(next)
	c.Threshold = max(c.Window/2, leastWindow*c.segment)
	c.Window = c.Threshold
	if silence {
		c.Window, c.BeforeWindow = leastWindow*c.segment, 0
	}
}

// spared takes back what the loss of a datagram has done that was only late: the path has changed the order, or has
// become slower, or the peer acknowledges later than others. If the window was reduced meanwhile, it is as before.
func (c *congestion) spared(n Seq24) {
	if !n.Before(c.LossesFrom) && c.Losses > 0 {
		c.Losses--
	}
	if !c.inRecovery(n) {
		c.LossShare = max(0, c.LossShare-lossGain)
	} else if c.BeforeWindow > c.Window {
		c.Window, c.Threshold, c.Reduced = c.BeforeWindow, c.BeforeThreshold, false
	}
}

// isHeavy reports whether so many datagrams were lost of late that congestion must be the cause. The requests of a
// lagging peer come before the ACK of all other datagrams of that time, so the share would be too high at that moment.
func (c *congestion) isHeavy() bool {
	if c.queue.Lagging {
		return c.Heavy
	}
	return c.LossShare >= heavyLoss
}

func (c *congestion) inRecovery(n Seq24) bool { return c.Reduced && n.Before(c.Recovered) }

// overdue removes a datagram without an answer from the bytes in flight. Either the datagram or its acknowledgement was
// lost. A NACK will tell. Until then only silence has an effect: the first one leads to a probe, and the loss of the
// probe resets the window. overdue reports whether there is such an effect.
func (c *congestion) overdue(n, next Seq24, size int, silence bool) bool {
	switch {
	case c.endProbe(n) && silence:
		c.lost(n, next, size, true)
	case c.Probing || !silence:
		c.InFlight -= size
		return false
	default:
		c.InFlight -= size
		c.Probing, c.Probed, c.ProbeRoom = true, next, int32(leastWindow*c.segment)
	}
	return true
}

// repeats takes datagram n, which goes again under its old number, for one of the probe if there is one.
func (c *congestion) repeats(n Seq24) {
	if c.Probing && n.Before(c.Probed) {
		c.Probed = n
	}
}

// endProbe ends a probe, and reports that, if a datagram without an answer is of it. Nothing else may end it: when all
// of its datagrams have an outcome, nothing is in flight.
func (c *congestion) endProbe(n Seq24) bool {
	ends := c.Probing && !n.Before(c.Probed)
	c.Probing = c.Probing && !ends
	return ends
}

// The pacer's burst in full datagrams, which are sent at once. The data due in burstTime is the burst if it is more.
// Timers have a resolution of a millisecond, and may be late by a few.
const (
	burstDatagrams = 10
	burstTime      = 4 * time.Millisecond
)

// pacer spreads a window over the round trip, so that a large message does not fill the queues of the path with a burst
// (docs/protocols/raknet/recovery.md#recovery-and-congestion). It counts the bytes sent ahead of the rate as a debt.
// Time pays it off.
type pacer struct {
	Debt    int64         `cbor:"11,keyasint,omitempty"` // bytes
	PacerAt time.Duration `cbor:"12,keyasint,omitempty"` // time of Debt
	WakeAt  time.Duration `cbor:"13,keyasint,omitempty"` // when the delayed datagram may leave; 0 if none was delayed
}

// pace is a number of bytes per time.
type pace struct {
	bytes int64
	in    time.Duration // 0: unlimited
}

func (p pace) during(t time.Duration) int64 { return p.bytes * int64(t) / int64(p.in) }

// allows reports whether another datagram of at most segment bytes may be sent now. leeway is the allowed excess over
// the burst.
func (p *pacer) allows(now time.Duration, rate pace, segment, leeway int) bool {
	p.WakeAt = 0
	if rate.in == 0 {
		return true
	}
	p.pay(now, rate)
	burst := max(int64(burstDatagrams*segment), rate.during(burstTime))
	if p.Debt < burst+int64(leeway) {
		return true
	}
	excess := p.Debt + int64(segment) - burst
	p.WakeAt = now + max(time.Duration(excess*int64(rate.in)/rate.bytes), time.Millisecond)
	return false
}

func (p *pacer) sent(size int) { p.Debt += int64(size) }

// pay reduces the debt by the bytes earned since the last call. A fraction of a byte, and its time, stays unpaid.
func (p *pacer) pay(now time.Duration, rate pace) {
	earned := rate.during(min(now-p.PacerAt, time.Second))
	if earned > 0 || p.Debt == 0 {
		p.Debt, p.PacerAt = max(0, p.Debt-earned), now
	}
}

// Bounds of a lossCount. Of fewer than leastCounted datagrams nothing is concluded.
const (
	leastCounted = 16
	mostCounted  = 512
)

// certainty is the square of three standard deviations of the number of lost datagrams at a loss of 15 %, for each
// datagram, in the unit of judge. With so much more a random loss of 10 % is not taken for one of 15 %.
const certainty = 459

// lossCount counts the lost datagrams among the latest ones of a lagging peer, by number: an ACK of such a peer is for
// many datagrams and may be lost, so that a datagram without an answer need not be lost. Loss is heavy above 15 %, as
// heavyLoss says.
type lossCount struct {
	LossesFrom Seq24 `cbor:"8,keyasint,omitempty"` // the first datagram that counts
	Newest     Seq24 `cbor:"9,keyasint,omitempty"` // the newest datagram that the peer has named
	Losses     int32 `cbor:"10,keyasint,omitempty"`
	Heavy      bool  `cbor:"11,keyasint,omitempty"` // too many are lost
}

// restartLosses counts from datagram n on.
func (l *lossCount) restartLosses(n Seq24) { *l = lossCount{LossesFrom: n, Newest: n} }

// addLoss counts a lost datagram.
func (l *lossCount) addLoss(n Seq24) {
	if !n.Before(l.LossesFrom) {
		l.Losses++
	}
}

// judgeLosses decides after an ACK or NACK whose newest datagram is n. With many datagrams it forgets the older half.
func (l *lossCount) judgeLosses(n Seq24) {
	if l.Newest.Before(n) {
		l.Newest = n
	}
	total := l.Newest.Sub(l.LossesFrom) + 1
	excess := 20*int(l.Losses) - 3*total // over 15 %, in twentieths of a datagram
	l.Heavy = total >= leastCounted && excess > 0 && (total >= mostCounted || excess*excess > certainty*total)
	if total >= 2*mostCounted {
		l.LossesFrom = l.LossesFrom.Add(total / 2)
		l.Losses /= 2
	}
}
