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

// spareLoss takes back a datagram that was only late.
func (l *lossCount) spareLoss(n Seq24) {
	if !n.Before(l.LossesFrom) && l.Losses > 0 {
		l.Losses--
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
