package nethernet

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
)

// Bounds of Sources. MaxSources is the number of addresses.
const (
	MaxSources = 8  // a client checks from 2 to 6 addresses at once
	maxAsked   = 32 // requests whose responses may be on the way, or that a stranger may send again
	// takeover is how long the active source must be silent before another one of the client's gets its place.
	takeover = 1500 * time.Millisecond
	// lapse is longer than any client takes between two checks of the address that it uses.
	lapse = 7 * time.Second
)

// Sources are the addresses of one client of an edge, which has one socket for the client towards the server. So the
// server notices nothing when a NAT gives the client another port. An address becomes a source by a verified request.
// The server's datagrams go to the active source: the one that was nominated last. Another source takes its place when
// it is silent.
//
// Some clients nominate each address that they check, also one that datagrams do not reach, or that they give up a
// moment later. A server would try it first. So a nomination counts only if the new source has shown that it is
// reached, or the active one has not.
//
// Anybody can write an address that the client had, before a NAT changed, on a datagram that is no request. So such an
// address takes no place once its last request is old. It loses its place to data of an address that came up later.
//
// A recorded request verifies again. So one of the last 32 requests that comes from another address changes nothing.
// An address without the password cannot take a living session. The zero value has no source. Times are those since any
// moment that stays the same, since a busy edge has many Sources.
type Sources struct {
	sources []source
	asked   [maxAsked]asked
	active  uint8 // in sources
	next    uint8 // in asked
	reached uint8 // a bit for each source that has sent a datagram that answers one
}

// asked is a request: 28 bits of its ID, and its asker, which is a source counted from 1. Zero is no request.
type asked uint32

// Askers. There are fewer sources than the first two.
const (
	gone    = 0xf // it has made room for another
	unknown = 0xe // the request came to another process
	askers  = 0xf
)

func (id TransactionID) asked() asked { return asked(be.Uint32(id[:])) &^ askers }

func (a asked) asker() int { return int(a & askers) }

type source struct {
	at                   netip.AddrPort
	added, heard, proved time.Duration // as the argument now; proved is that of the last request
}

// Request takes a request that the client's password has verified. An error wraps codec.ErrDuplicate: the request came
// from another address before, so a stranger may have recorded it. Such a datagram must be dropped.
func (s *Sources) Request(now time.Duration, from netip.AddrPort, b *Binding) error {
	known, i := s.find(b.ID), s.index(from)
	if known >= 0 && (i < 0 || s.asked[known].asker() != i+1 && s.asked[known].asker() != unknown) {
		return codec.ErrDuplicate
	}
	if i < 0 {
		i = s.add(now, from)
	}
	s.sources[i].heard, s.sources[i].proved = now, now
	switch request := b.ID.asked() | asked(i+1); {
	case known >= 0:
		s.asked[known] = request
	default:
		s.asked[s.next] = request
		s.next = (s.next + 1) % maxAsked
	}
	counts := b.Nominates && known < 0 && (s.isReached(i) || !s.isReached(int(s.active)))
	if counts || s.activeIsSilent(now) || now-s.sources[s.active].proved >= lapse {
		s.active = uint8(i)
	}
	return nil
}

// Heard takes any other datagram of a client. It reports whether the address is a source: other addresses' datagrams
// must be dropped.
func (s *Sources) Heard(now time.Duration, from netip.AddrPort, datagram []byte) bool {
	i := s.index(from)
	if i < 0 {
		return false
	}
	// A client begins neither with DTLS nor with a response.
	s.sources[i].heard = now
	data, younger := KindOf(datagram) == DTLS, s.sources[i].added-s.sources[s.active].proved
	if data || responds(datagram) {
		s.reached |= 1 << i
	}
	if s.activeIsSilent(now) && now-s.sources[i].proved < lapse || data && younger >= takeover {
		s.active = uint8(i)
	}
	return true
}

// Carried notes that a datagram of the active source went another way, past Heard.
func (s *Sources) Carried(at time.Duration) {
	if len(s.sources) > 0 {
		s.sources[s.active].heard = max(at, s.sources[s.active].heard)
	}
}

func (s *Sources) isReached(i int) bool { return s.reached>>i&1 != 0 }

// Active returns the active source, or an invalid address if there is no source.
func (s *Sources) Active() netip.AddrPort {
	if len(s.sources) == 0 {
		return netip.AddrPort{}
	}
	return s.sources[s.active].at
}

// To returns where a server's datagram goes: a response to the source that has asked, all else to the active source.
func (s *Sources) To(datagram []byte) netip.AddrPort {
	if responds(datagram) {
		known := s.find(TransactionID(datagram[transactionAt:stunHeader]))
		if known >= 0 && s.asked[known].asker() < unknown {
			return s.sources[s.asked[known].asker()-1].at
		}
	}
	return s.Active()
}

// responds reports whether a datagram is a response of STUN, to a request of any method.
func responds(datagram []byte) bool {
	return IsSTUN(datagram) && be.Uint16(datagram)&responseBit != 0
}

// Append appends all sources, the active one first.
func (s *Sources) Append(to []netip.AddrPort) []netip.AddrPort {
	for i := range s.sources {
		to = append(to, s.sources[(int(s.active)+i)%len(s.sources)].at)
	}
	return to
}

// Asked appends parts of the latest requests' IDs, which another process must know, too: a stranger may send one of
// them again.
func (s *Sources) Asked(to []uint32) []uint32 {
	for i := range s.asked {
		if a := s.asked[(int(s.next)+i)%maxAsked]; a != 0 {
			to = append(to, uint32(a&^askers))
		}
	}
	return to
}

// RestoreSources returns the Sources of a session that another process had. all and parts are what Append and Asked
// gave there; others are left out. Who has sent which request is forgotten.
func RestoreSources(heard time.Duration, all []netip.AddrPort, parts []uint32) (s Sources) {
	for _, at := range all[:min(len(all), MaxSources)] {
		if at.IsValid() && s.index(at) < 0 {
			s.sources, s.reached = append(s.sources, source{at: at, heard: heard, proved: heard}), 1
		}
	}
	for i, part := range parts[max(0, len(parts)-maxAsked):] {
		s.asked[i] = asked(part)&^askers | unknown
		s.next = uint8((i + 1) % maxAsked)
	}
	return s
}

// find returns where the request with an ID is, or -1.
func (s *Sources) find(id TransactionID) int {
	part := id.asked()
	return slices.IndexFunc(s.asked[:], func(a asked) bool { return a&^askers == part && a != 0 })
}

func (s *Sources) index(at netip.AddrPort) int {
	return slices.IndexFunc(s.sources, func(known source) bool { return known.at == at })
}

// add makes an address a source. If there are too many, the one that was silent for the longest time makes room, but
// never the active one.
func (s *Sources) add(now time.Duration, from netip.AddrPort) int {
	if len(s.sources) < MaxSources {
		s.sources = append(s.sources, source{at: from, added: now})
		return len(s.sources) - 1
	}
	oldest := -1
	for i := range s.sources {
		if i != int(s.active) && (oldest < 0 || s.sources[i].heard < s.sources[oldest].heard) {
			oldest = i
		}
	}
	for i, a := range s.asked {
		if a.asker() == oldest+1 {
			s.asked[i] |= gone
		}
	}
	s.sources[oldest] = source{at: from, added: now}
	s.reached &^= 1 << oldest
	return oldest
}

func (s *Sources) activeIsSilent(now time.Duration) bool {
	return now-s.sources[s.active].heard >= takeover
}

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
