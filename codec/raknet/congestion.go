package raknet

import "time"

// Bounds of the congestion window in full datagrams. The first is what content networks start with today, about 46 kB: a
// player who joins waits for a map, and a path too narrow for it says so at once. The floor is high for TCP, but a game's
// own tick bounds what it sends, and on a lossy wireless path the square-root law would starve it for no one's good. The
// ceiling keeps the window a number; maxFlight binds earlier.
const (
	firstWindow = 32
	leastWindow = 8
	mostWindow  = 4096
)

// heavyLoss is the share of datagrams lost from which on loss means congestion even where no queue is seen: a shallow
// buffer, or a policer. Wireless paths lose a few in a hundred at random. lossGain is the weight of one datagram in it.
const (
	heavyLoss = 0.15
	lossGain  = 1.0 / 64
)

// congestion bounds the bytes in flight (docs/protocols/raknet.md#recovery-and-congestion): slow start, then one datagram
// more a round trip, counted in bytes. As in TCP Veno, a loss halves the window, once a round, only if it comes of
// congestion: if datagrams wait in a queue, or many are lost. While a queue stands the window does not grow either, so
// that a large message does not delay the game's small ones.
type congestion struct {
	segment   int   // bytes of a full datagram
	window    int   // bytes that may be in flight
	threshold int   // window at which slow start ends
	inFlight  int   // bytes sent, and neither acknowledged nor lost
	limiting  bool  // something was held back when we last wanted to send
	recovered Seq24 // losses of datagrams before this one belong to a round that was already answered
	reduced   bool  // recovered has a meaning
	queue     pathQueue
	lossShare float64 // of the datagrams lately
}

func newCongestion(segment int) congestion {
	return congestion{segment: segment, window: firstWindow * segment, threshold: mostWindow * segment}
}

// allows reports whether another datagram may go out, when there is something to send. leeway is what it may go beyond
// the window.
func (c *congestion) allows(leeway int) bool {
	c.limiting = c.inFlight >= c.window
	return c.inFlight < c.window+leeway
}

// pace is the rate of the window in a round trip, and somewhat more, so that it can be filled and grow.
func (c *congestion) pace(roundTrip time.Duration) pace {
	window := int64(c.window)
	if c.inSlowStart() {
		return pace{2 * window, roundTrip}
	}
	return pace{window + window/4, roundTrip}
}

func (c *congestion) inSlowStart() bool { return c.window < c.threshold }

func (c *congestion) sent(size int) { c.inFlight += size }

// acknowledged takes an acknowledged datagram out of flight. The window grows only if it held something back: what the
// game did not try to send says nothing about the path.
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

// lost takes a lost datagram out of flight, and halves the window if congestion is why, once for all that was in flight
// together; next is the number of the next datagram. Silence, unlike a NACK, also falls back to the least window: nothing
// at all came back.
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
