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

// congestion bounds the bytes in flight (docs/protocols/raknet/recovery.md#recovery-and-congestion). After slow start
// the window grows by one datagram per round trip, counted in bytes. A loss halves the window, once per round. As in
// TCP Veno, this happens only if the loss comes from congestion: datagrams wait in a queue, or many are lost. The
// window does not grow while there is a queue, so that a large message does not delay the game's small ones.
type congestion struct {
	segment   int   // bytes of a full datagram
	window    int   // bytes that may be in flight
	threshold int   // window at which slow start ends
	inFlight  int   // bytes sent that are neither acknowledged nor lost
	limiting  bool  // the window delayed the last transmission
	recovered Seq24 // losses of datagrams before this one belong to a round with a reaction already
	reduced   bool  // recovered is valid
	queue     pathQueue
	lossShare float64 // recent share of lost datagrams
}

func newCongestion(segment int) congestion {
	return congestion{segment: segment, window: firstWindow * segment, threshold: mostWindow * segment}
}

// allows reports whether another datagram may be sent now. leeway is the allowed excess over the window in bytes.
func (c *congestion) allows(leeway int) bool {
	c.limiting = c.inFlight >= c.window
	return c.inFlight < c.window+leeway
}

// pace returns a rate of one window per round trip, plus some, so that the window can be filled and grow.
func (c *congestion) pace(roundTrip time.Duration) pace {
	window := int64(c.window)
	if c.inSlowStart() {
		return pace{2 * window, roundTrip}
	}
	return pace{window + window/4, roundTrip}
}

func (c *congestion) inSlowStart() bool { return c.window < c.threshold }

func (c *congestion) sent(size int) { c.inFlight += size }

// acknowledged removes an acknowledged datagram from the bytes in flight. The window grows only if it delayed data.
// Otherwise the path has not been tested.
func (c *congestion) acknowledged(n Seq24, size int) {
	c.inFlight -= size
	c.lossShare -= c.lossShare * lossGain
	if c.queue.standing {
		c.threshold = min(c.threshold, c.window)
		return
	}
	if !c.limiting || c.inRecovery(n) {
		return
	}
	if c.inSlowStart() {
		c.window += size
	} else {
		c.window += max(1, c.segment*size/c.window)
	}
	c.window = min(c.window, mostWindow*c.segment)
}

// lost removes a lost datagram from the bytes in flight. If congestion is the cause, it halves the window, once for
// all datagrams that were in flight together. next is the number of the next datagram. Silence, unlike a NACK, also
// resets the window to its minimum, because no answer arrived at all.
func (c *congestion) lost(n, next Seq24, size int, silence bool) {
	c.inFlight -= size
	c.lossShare += (1 - c.lossShare) * lossGain
	if c.inRecovery(n) || !silence && !c.queue.standing && c.lossShare < heavyLoss {
		return
	}
	c.recovered, c.reduced = next, true
	c.threshold = max(c.window/2, leastWindow*c.segment)
	c.window = c.threshold
	if silence {
		c.window = leastWindow * c.segment
	}
}

func (c *congestion) inRecovery(n Seq24) bool { return c.reduced && n.Before(c.recovered) }
