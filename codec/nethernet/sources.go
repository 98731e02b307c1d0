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
// address takes no place once its last request is old, and does not keep it.
//
// A recorded request verifies again. So one of the last 32 requests that comes from another address changes nothing.
// An address without the password cannot take a living session. The zero value has no source.
type Sources struct {
	sources []source
	active  uint8            // in sources
	next    uint8            // in asked and askers
	asked   [maxAsked]uint32 // parts of their IDs
	askers  [maxAsked]uint8  // the source of each request, counted from 1; 0: no request
}

// Askers that are no source.
const (
	gone    = 0xff // it has made room for another
	unknown = 0xfe // the request came to another process
)

type source struct {
	at      netip.AddrPort
	heard   time.Time
	proved  time.Time // its last request
	reached bool      // it has sent a datagram that answers one
}

// Request takes a request that the client's password has verified. An error wraps codec.ErrDuplicate: the request came
// from another address before, so a stranger may have recorded it. Such a datagram must be dropped.
func (s *Sources) Request(now time.Time, from netip.AddrPort, b *Binding) error {
	known, i := s.find(b.ID), s.index(from)
	if known >= 0 && (i < 0 || int(s.askers[known]) != i+1 && s.askers[known] != unknown) {
		return codec.ErrDuplicate
	}
	if i < 0 {
		i = s.add(from)
	}
	s.sources[i].heard, s.sources[i].proved = now, now
	switch {
	case known >= 0 && s.askers[known] == unknown:
		s.askers[known] = uint8(i + 1)
	case known < 0:
		s.asked[s.next], s.askers[s.next] = b.ID.part(), uint8(i+1)
		s.next = (s.next + 1) % maxAsked
	}
	counts := b.Nominates && known < 0 && (s.sources[i].reached || !s.sources[s.active].reached)
	if counts || s.activeIsSilent(now) || now.Sub(s.sources[s.active].proved) >= lapse {
		s.active = uint8(i)
	}
	return nil
}

// Heard takes any other datagram of a client. It reports whether the address is a source: other addresses' datagrams
// must be dropped.
func (s *Sources) Heard(now time.Time, from netip.AddrPort, datagram []byte) bool {
	i := s.index(from)
	if i < 0 {
		return false
	}
	// A client begins neither with DTLS nor with a response.
	s.sources[i].heard, s.sources[i].reached = now, s.sources[i].reached || KindOf(datagram) == DTLS || responds(datagram)
	if s.activeIsSilent(now) && now.Sub(s.sources[i].proved) < lapse {
		s.active = uint8(i)
	}
	return true
}

// Carried notes that a datagram of the active source went another way, past Heard.
func (s *Sources) Carried(at time.Time) {
	if len(s.sources) > 0 && at.After(s.sources[s.active].heard) {
		s.sources[s.active].heard = at
	}
}

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
		if known >= 0 && s.askers[known] < unknown {
			return s.sources[s.askers[known]-1].at
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
		if at := (int(s.next) + i) % maxAsked; s.askers[at] != 0 {
			to = append(to, s.asked[at])
		}
	}
	return to
}

// RestoreSources returns the Sources of a session that another process had. all and asked are what Append and Asked
// gave there; others are left out. Who has sent which request is forgotten.
func RestoreSources(heard time.Time, all []netip.AddrPort, asked []uint32) (s Sources) {
	for _, at := range all[:min(len(all), MaxSources)] {
		if at.IsValid() && s.index(at) < 0 {
			s.sources = append(s.sources, source{at: at, heard: heard, proved: heard, reached: len(s.sources) == 0})
		}
	}
	for i, part := range asked[max(0, len(asked)-maxAsked):] {
		s.asked[i], s.askers[i] = part, unknown
		s.next = uint8((i + 1) % maxAsked)
	}
	return s
}

// part is enough of an ID to tell the requests of one client apart.
func (id TransactionID) part() uint32 { return be.Uint32(id[:]) }

// find returns where the request with an ID is, or -1.
func (s *Sources) find(id TransactionID) int {
	part := id.part()
	for i := range s.asked {
		if s.asked[i] == part && s.askers[i] != 0 {
			return i
		}
	}
	return -1
}

func (s *Sources) index(at netip.AddrPort) int {
	return slices.IndexFunc(s.sources, func(known source) bool { return known.at == at })
}

// add makes an address a source. If there are too many, the one that was silent for the longest time makes room, but
// never the active one.
func (s *Sources) add(from netip.AddrPort) int {
	if len(s.sources) < MaxSources {
		s.sources = append(s.sources, source{at: from})
		return len(s.sources) - 1
	}
	oldest := -1
	for i := range s.sources {
		if i != int(s.active) && (oldest < 0 || s.sources[i].heard.Before(s.sources[oldest].heard)) {
			oldest = i
		}
	}
	for i, asker := range s.askers {
		if int(asker) == oldest+1 {
			s.askers[i] = gone
		}
	}
	s.sources[oldest] = source{at: from}
	return oldest
}

func (s *Sources) activeIsSilent(now time.Time) bool {
	return now.Sub(s.sources[s.active].heard) >= takeover
}
