package raknet

import "time"

// Bounds of the congestion window in full datagrams. The first window is that of today's content networks, about 46
// kB: a joining player waits for a map, and losses soon show a narrow path. The minimum is high compared to TCP. A
// game's own tick already bounds its traffic. On a lossy wireless path the square-root law would only slow the game
// down. The maximum keeps the window finite; maxFlight is reached earlier.
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
	segment   int   // bytes of a full datagram
	window    int   // bytes that may be in flight
	threshold int   // window at which slow start ends
	inFlight  int   // bytes sent that are neither acknowledged nor lost
	limiting  bool  // the window delayed the last transmission
	recovered Seq24 // losses of datagrams before this one belong to a round with a reaction already
	reduced   bool  // recovered is valid
	queue     pathQueue
	lossShare float64   // recent share of lost datagrams
	losses    lossCount // takes its place for a lagging peer
	trips     uint8     // round trips of the path that an acknowledgement takes, at most mostTrips; 0 means one
	probing   bool      // after a silence only probeRoom bytes may be sent, until there is an acknowledgement
	probed    Seq24     // the first datagram of the probe
	probeRoom int32
	// before has the values before the last reduction, unless silence was its reason.
	before struct{ window, threshold int }
}

func newCongestion(segment int) congestion {
	return congestion{segment: segment, window: firstWindow * segment, threshold: mostWindow * segment}
}

// allows reports whether another datagram may be sent now. leeway is the allowed excess over the window in bytes.
func (c *congestion) allows(leeway int) bool {
	if c.probing {
		c.limiting = c.probeRoom <= 0
		return int(c.probeRoom)+leeway > 0
	}
	c.limiting = c.inFlight >= c.window
	return c.inFlight < c.window+leeway
}

// hasRoom reports the same as allows without leeway, and changes nothing.
func (c *congestion) hasRoom() bool {
	if c.probing {
		return c.probeRoom > 0
	}
	return c.inFlight < c.window
}

// usable returns the window, or its minimum while a probe is out.
func (c *congestion) usable() int {
	if c.probing {
		return min(c.window, leastWindow*c.segment)
	}
	return c.window
}

// pace returns a rate of one window per round trip, plus some, so that the window can be filled and grow.
func (c *congestion) pace(roundTrip time.Duration) pace {
	window := int64(c.usable())
	if c.inSlowStart() {
		return pace{2 * window, roundTrip}
	}
	return pace{window + window/4, roundTrip}
}

func (c *congestion) inSlowStart() bool { return c.window < c.threshold }

func (c *congestion) sent(size int) {
	c.inFlight += size
	if c.probing {
		c.probeRoom -= int32(size)
	}
}

// acknowledged removes an acknowledged datagram from the bytes in flight. The window grows only if it delayed data.
// Otherwise the path has not been tested.
func (c *congestion) acknowledged(n Seq24, size int) {
	c.inFlight -= size
	c.lossShare -= c.lossShare * lossGain
	if c.queue.standing {
		c.threshold = min(c.threshold, c.window)
		return
	}
	if !c.limiting || c.queue.doubts > 0 || c.inRecovery(n) {
		return
	}
	if c.inSlowStart() {
		c.window += size
	} else {
		c.window += max(1, c.segment*size/c.window*int(max(c.trips, 1)))
	}
	c.window = min(c.window, mostWindow*c.segment)
}

// answered ends a probe: the peer has acknowledged a datagram. roundTrip is the time that acknowledgements take. If a
// lagging peer holds them back, the window still grows for each round trip of the path.
func (c *congestion) answered(roundTrip time.Duration) {
	c.probing, c.trips = false, 1
	if path := c.queue.floor(); path > 0 && c.queue.lagging {
		c.trips = uint8(min(max(roundTrip/path, 1), mostTrips))
	}
}

// ponged takes the round trip of a ping. If it shows that the peer is lagging, slow start continues: it ended for the
// sake of a queue that was none.
func (c *congestion) ponged(now, roundTrip time.Duration) {
	if c.queue.ping(now, roundTrip) {
		c.threshold = mostWindow * c.segment
	}
}

// lost removes a lost datagram from the bytes in flight, and reacts to the loss. next is the number of the next
// datagram.
func (c *congestion) lost(n, next Seq24, size int, silence bool) {
	c.inFlight -= size
	c.endProbe(n)
	c.blame(n, next, silence)
}

// blame reacts to a loss. If congestion is the cause, it halves the window, once for all datagrams that were in flight
// together. Silence, unlike a NACK, also resets the window to its minimum, because no answer arrived at all.
func (c *congestion) blame(n, next Seq24, silence bool) {
	c.lossShare += (1 - c.lossShare) * lossGain
	c.losses.add(n)
	if c.inRecovery(n) || !silence && !c.queue.standing && !c.isHeavy() {
		return
	}
	c.recovered, c.reduced = next, true
	c.before.window, c.before.threshold = c.window, c.threshold
	c.losses.restart(next)
	c.threshold = max(c.window/2, leastWindow*c.segment)
	c.window = c.threshold
	if silence {
		c.window, c.before.window = leastWindow*c.segment, 0
	}
}

// spared takes back what a request has done whose datagram was only late: the path has changed the order. If the window
// was reduced meanwhile, it is as before.
func (c *congestion) spared(n Seq24) {
	c.lossShare = max(0, c.lossShare-lossGain)
	c.losses.spare(n)
	if c.inRecovery(n) && c.before.window > c.window {
		c.window, c.threshold, c.reduced = c.before.window, c.before.threshold, false
	}
}

// isHeavy reports whether so many datagrams were lost of late that congestion must be the cause. The requests of a
// lagging peer come before the ACK of all other datagrams of that time, so the share would be too high at that moment.
func (c *congestion) isHeavy() bool {
	if c.queue.lagging {
		return c.losses.heavy
	}
	return c.lossShare >= heavyLoss
}

func (c *congestion) inRecovery(n Seq24) bool { return c.reduced && n.Before(c.recovered) }

// overdue removes a datagram without an answer from the bytes in flight. Either the datagram or its acknowledgement was
// lost. A NACK will tell. Until then only silence has an effect: the first one leads to a probe, and the loss of the
// probe resets the window. overdue reports whether there is such an effect.
func (c *congestion) overdue(n, next Seq24, size int, silence bool) bool {
	switch {
	case c.endProbe(n) && silence:
		c.lost(n, next, size, true)
	case c.probing || !silence:
		c.inFlight -= size
		return false
	default:
		c.inFlight -= size
		c.probing, c.probed, c.probeRoom = true, next, int32(leastWindow*c.segment)
	}
	return true
}

// endProbe ends a probe, and reports that, if a datagram without an answer is of it. Nothing else may end it: when all
// of its datagrams have an outcome, nothing is in flight.
func (c *congestion) endProbe(n Seq24) bool {
	ends := c.probing && !n.Before(c.probed)
	c.probing = c.probing && !ends
	return ends
}
