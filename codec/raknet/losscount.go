package raknet

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
	from   Seq24 // the first datagram that counts
	newest Seq24 // the newest datagram that the peer has named
	lost   int32
	heavy  bool // too many are lost
}

// restart counts from datagram n on.
func (l *lossCount) restart(n Seq24) { *l = lossCount{from: n, newest: n} }

// add counts a lost datagram.
func (l *lossCount) add(n Seq24) {
	if !n.Before(l.from) {
		l.lost++
	}
}

// spare takes back a datagram that was only late.
func (l *lossCount) spare(n Seq24) {
	if !n.Before(l.from) && l.lost > 0 {
		l.lost--
	}
}

// judge decides after an ACK or NACK whose newest datagram is n. With many datagrams it forgets the older half.
func (l *lossCount) judge(n Seq24) {
	if l.newest.Before(n) {
		l.newest = n
	}
	total := l.newest.Sub(l.from) + 1
	excess := 20*int(l.lost) - 3*total // over 15 %, in twentieths of a datagram
	l.heavy = total >= leastCounted && excess > 0 && (total >= mostCounted || excess*excess > certainty*total)
	if total >= 2*mostCounted {
		l.from = l.from.Add(total / 2)
		l.lost /= 2
	}
}
