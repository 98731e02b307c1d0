package nethernet

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// Answer is a server's answer to a join, with this end's own half.
type Answer struct {
	Peer                    *Peer
	Target                  netip.AddrPort // of the server, for datagrams
	Ufrag, Password         string         // of this end
	PeerUfrag, PeerPassword string
	Seed                    uint64 // chance, from which the numbers of checks follow
}

// Times of checks. RFC 7675 has those of consent.
const (
	firstWait    = 100 * time.Millisecond // for the response to a check; each next wait is twice as long
	mostWait     = time.Second
	consentEvery = 5 * time.Second // within a fifth
	consentTime  = 30 * time.Second
)

// maxOwed bounds the responses to the server's own checks that wait to leave.
const maxOwed = 4

// agent is ICE's controlling agent on the one path to a server. It sends checks until the server has answered one, and
// nominates the path with each of them. From then on, checks show that the server still wants datagrams.
type agent struct {
	answer    *Answer
	integrity *Integrity // lent
	binding   Binding    // of the present datagram
	id        TransactionID
	checks    uint64 // with IDs of their own
	wait      time.Duration
	next      time.Time // when a check leaves
	heard     time.Time // when the server has last answered one; zero: never
	owed      [maxOwed]TransactionID
	owes      int
}

// works reports whether the server has answered a check.
func (a *agent) works() bool { return !a.heard.IsZero() }

// isLost reports whether the server has withdrawn its consent, by silence.
func (a *agent) isLost(now time.Time) bool { return a.works() && now.Sub(a.heard) >= consentTime }

// timeout returns when the agent has to do something.
func (a *agent) timeout() time.Time {
	if !a.works() {
		return a.next
	}
	return codec.Earliest(a.next, a.heard.Add(consentTime))
}

// receive takes a STUN datagram of the server's.
func (a *agent) receive(now time.Time, datagram []byte) error {
	b := &a.binding
	if err := b.Parse(datagram); err != nil {
		return err
	}
	switch {
	case !b.IsWhole():
		return codec.ErrMalformed
	case b.Class == Request && b.Names(a.answer.Ufrag, a.answer.PeerUfrag) && a.integrity.Verify(b, a.answer.Password):
		if a.owes < maxOwed {
			a.owed[a.owes] = b.ID
			a.owes++
		}
		return nil
	case b.Class == Success && b.ID == a.id && a.checks > 0 && a.integrity.Verify(b, a.answer.PeerPassword):
		if !a.works() {
			a.next = now.Add(consentEvery)
		}
		a.heard = now
		return nil
	}
	return codec.ErrUnexpected
}

// transmit appends the next STUN datagram to the server.
func (a *agent) transmit(now time.Time, b []byte) ([]byte, bool) {
	switch {
	case a.owes > 0:
		a.owes--
		return a.integrity.AppendSuccess(b, a.owed[a.owes], a.answer.Target, a.answer.Password), true
	case now.Before(a.next):
		return b, false
	case a.works():
		a.begin()
		a.next = now.Add(consentEvery*4/5 + time.Duration(be.Uint16(a.id[:]))*(consentEvery*2/5)>>16)
	case a.checks == 0:
		a.begin()
		a.wait = firstWait
		a.next = now.Add(a.wait)
	default:
		a.wait = min(2*a.wait, mostWait)
		a.next = now.Add(a.wait)
	}
	return a.integrity.AppendCheck(b, Check{
		ID: a.id, To: a.answer.PeerUfrag, From: a.answer.Ufrag, Priority: hostPriority, Role: Controlling,
		TieBreaker: a.answer.Seed, Nominates: !a.works(),
	}, a.answer.PeerPassword), true
}

// begin begins a check with an ID of its own. A response is proved by its integrity, so the ID need not be secret.
func (a *agent) begin() {
	const odd = 0x9e3779b97f4a7c15
	a.checks++
	x := a.answer.Seed + a.checks*odd
	x ^= x >> 29
	x *= odd
	be.PutUint64(a.id[:], x^x>>32)
	be.PutUint32(a.id[8:], uint32(a.checks))
}
