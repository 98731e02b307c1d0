package raknet

// Bounds of the congestion window in full datagrams. The first is what content networks start with today, about 46 kB: a
// player who joins waits for a map, and a path too narrow for it says so at once. The floor is high for TCP, but a game's
// own tick bounds what it sends, and on a lossy wireless path the square-root law would starve it for no one's good. The
// ceiling keeps the window a number; maxFlight binds earlier.
const (
	firstWindow = 32
	leastWindow = 8
	mostWindow  = 4096
)

// congestion bounds the bytes in flight: NewReno (slow start, then one datagram more a round trip, halved once a round
// when something is lost), counted in bytes. Stock RakNet does the same with other constants, so that the two share a
// path fairly; CUBIC gains only where the path is long, fat and kept full, which games do not
// (docs/protocols/raknet.md#recovery-and-congestion).
type congestion struct {
	segment   int   // bytes of a full datagram
	window    int   // bytes that may be in flight
	threshold int   // window at which slow start ends
	inFlight  int   // bytes sent, and neither acknowledged nor lost
	limiting  bool  // the window held something back when we last wanted to send
	recovered Seq24 // losses of datagrams before this one belong to a round that was already answered
	reduced   bool  // recovered has a meaning
}

func newCongestion(segment int) congestion {
	return congestion{segment: segment, window: firstWindow * segment, threshold: mostWindow * segment}
}

// allows reports whether another datagram may go out, when there is something to send.
func (c *congestion) allows() bool {
	c.limiting = c.inFlight >= c.window
	return !c.limiting
}

func (c *congestion) sent(size int) { c.inFlight += size }

// acknowledged takes an acknowledged datagram out of flight. The window grows only if it held something back: what the
// game did not try to send says nothing about the path.
func (c *congestion) acknowledged(n Seq24, size int) {
	c.inFlight -= size
	if !c.limiting || c.inRecovery(n) {
		return
	}
	if c.window < c.threshold {
		c.window += size
	} else {
		c.window += max(1, c.segment*size/c.window)
	}
	c.window = min(c.window, mostWindow*c.segment)
}

// lost takes a lost datagram out of flight and halves the window, once for all that was in flight together; next is the
// number of the next datagram. A timeout, unlike a NACK, also falls back to the least window: nothing at all came back.
func (c *congestion) lost(n, next Seq24, size int, timeout bool) {
	c.inFlight -= size
	if c.inRecovery(n) {
		return
	}
	c.recovered, c.reduced = next, true
	c.threshold = max(c.window/2, leastWindow*c.segment)
	c.window = c.threshold
	if timeout {
		c.window = leastWindow * c.segment
	}
}

func (c *congestion) inRecovery(n Seq24) bool { return c.reduced && n.Before(c.recovered) }
