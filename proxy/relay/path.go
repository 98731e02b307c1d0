package relay

import (
	"net/netip"
	"time"

	"tidegate/internal/netio"
	"tidegate/ratelimit"
)

// paceSlack is added to a span, since datagrams do not all take equally long to the server.
const paceSlack = 2 * time.Millisecond

// path leads from one source address to one server, and is shared by sessions. When the server's Pace is used up,
// sessions wait in line, with their datagrams in their codecs. So no datagram is lost or copied. A line is never
// longer than the number of sessions.
type path struct {
	pathKey
	sessions int
	window   *ratelimit.Window // nil: unbounded
	line     line              // sessions that wait; sessions that have left meanwhile are skipped
	parked   parked            // datagrams of sessions in ModeRelay that wait
	odd      bool              // the next turn is for the line, not for parked datagrams
	blocked  bool              // a session or datagram waits
	moved    bool              // datagrams have been counted since sent
	bound    Pace
	unheard  int       // datagrams since the server was heard
	restsTo  time.Time // when the next one may leave for a server that was silent
	spokeAt  time.Time // when the server last spoke
	speaks   time.Time // since when it does so, without a pause
}

// silenceTime is the time in which a silent server gets as many datagrams as Pace allows in a span. Servers bear the
// silence of a client for 10 s, so after that none is left that could be blocked.
const silenceTime = 11 * time.Second

type pathKey struct {
	upstream string
	server   netip.AddrPort
	source   netip.Addr // the zero Addr: the system chooses
}

// paths are the paths of a Relay.
type paths struct {
	shard   shard
	byKey   map[pathKey]*path
	blocked []*path // paths where a session or datagram waits
	moved   []*path // paths with datagrams counted since sent
	tidyAt  int     // number of paths at which unused ones are forgotten
}

// take returns the path of another session to a server, from the source address with the fewest sessions. It returns
// nil if there is no choice and no bound.
func (ps *paths) take(now time.Time, u *Upstream, server netip.AddrPort) *path {
	if u.Transport.Sources.IsValid() {
		return ps.own(now, u)
	}
	var best *path
	for _, source := range u.Sources {
		if source.Is4() == server.Addr().Unmap().Is4() {
			if p := ps.of(now, u, server, source); best == nil || p.sessions < best.sessions {
				best = p
			}
		}
	}
	if best == nil && u.Pace.Datagrams > 0 {
		best = ps.of(now, u, server, netip.Addr{})
	}
	if best != nil {
		best.sessions++
	}
	return best
}

// own returns the path of a session with its own source address, or nil without a bound. The path gets the Pace of
// all loops together, since no other loop uses the address.
func (ps *paths) own(now time.Time, u *Upstream) *path {
	if u.Pace.Datagrams == 0 {
		return nil
	}
	p := &path{sessions: 1}
	whole := u.Pace
	whole.Datagrams, whole.Silent = whole.Datagrams*ps.shard.of, whole.Silent*ps.shard.of
	p.pace(now, whole)
	return p
}

func (ps *paths) of(now time.Time, u *Upstream, server netip.AddrPort, source netip.Addr) *path {
	key := pathKey{u.Name, server, source}
	p := ps.byKey[key]
	if p == nil {
		ps.tidy(now)
		p = &path{pathKey: key}
		p.pace(now, u.Pace)
		ps.byKey[key] = p
	}
	return p
}

// leastPaths is the number of paths that are kept in any case.
const leastPaths = 16

// tidy forgets unused paths once their number has doubled. Discovered servers may come and go without end.
func (ps *paths) tidy(now time.Time) {
	if len(ps.byKey) < max(ps.tidyAt, leastPaths) {
		return
	}
	for key, p := range ps.byKey {
		if p.sessions == 0 && !p.blocked && !p.moved && (p.window == nil || p.window.Idle(now)) {
			delete(ps.byKey, key)
		}
	}
	ps.tidyAt = 2 * len(ps.byKey)
}

// source returns the first source address of an address's family. The zero Addr leaves the choice to the system.
func (u *Upstream) source(to netip.Addr) netip.Addr {
	for _, source := range u.Sources {
		if source.Is4() == to.Unmap().Is4() {
			return source
		}
	}
	return netip.Addr{}
}

// pace gives a path its bound.
func (p *path) pace(now time.Time, to Pace) {
	p.bound = to
	switch span := to.Span + paceSlack; {
	case to.Datagrams == 0:
		p.window = nil
	case p.window == nil || !p.window.Is(to.Datagrams, span):
		p.window = ratelimit.NewWindow(to.Datagrams, span, now)
	}
}

// arrange gives the paths the bounds of new settings, and forgets paths without sessions.
func (ps *paths) arrange(now time.Time, routes []*route) {
	for key, p := range ps.byKey {
		if p.sessions == 0 {
			delete(ps.byKey, key)
			continue
		}
		for _, route := range routes {
			if route.Upstream.Name == key.upstream {
				p.pace(now, route.Upstream.Pace)
			}
		}
	}
}

// local returns the source address of the path's sockets.
func (p *path) local() netip.Addr {
	if p == nil {
		return netip.Addr{}
	}
	return p.source
}

// leave removes a session from the path.
func (p *path) leave() {
	if p != nil {
		p.sessions--
	}
}

// free reports whether a datagram may leave now.
func (p *path) free(now time.Time) bool {
	return p.window == nil || p.window.Free(now) && !now.Before(p.restsTo)
}

// isHeld reports whether so many datagrams are without an answer that the server may be frozen or behind. It would find
// all of them at once, and block our address for all players.
func (p *path) isHeld() bool { return p.bound.Silent > 0 && p.unheard >= p.bound.Silent }

// pause is a silence after which a server may be busy with all that has waited for it.
const pause = 100 * time.Millisecond

// refusals returns how many datagrams of a server a session's codec has refused so far, if they matter to the path. The
// codec may know, also after a reload, that the server bears many at once.
func (p *path) refusals(s *link) uint64 {
	if p == nil || p.bound.Silent == 0 {
		return 0
	}
	known := s.upstream.Conn.Stats()
	if known.Lenient {
		p.bound.Silent, p.unheard, p.restsTo = 0, 0, time.Time{}
	}
	return known.Dropped
}

// hear notes a server's datagram. A server that spoke without a pause all the time is not late. A doubtful datagram may
// be forged.
func (p *path) hear(now time.Time, datagram []byte, doubtful bool) {
	if p == nil || p.bound.Silent == 0 || doubtful {
		return
	}
	if now.Sub(p.spokeAt) > pause {
		p.speaks = now
	}
	p.spokeAt = now
	switch busy := p.bound.Busy(datagram); {
	case busy > pause && p.isHeld():
		p.unheard, p.restsTo = 0, p.speaks.Add(busy)
	case busy == 0 || p.isHeld():
		p.unheard, p.restsTo = 0, now.Add(busy)
	}
}

// refuse notes that a datagram has not arrived, since no server is there to read it.
func (p *path) refuse() {
	if p != nil {
		p.unheard, p.restsTo = 0, time.Time{}
	}
}

// lets reports whether a session's datagram may leave now, without a place in line. At a silent server some of a join
// may: a server that was started again knows no other session, and answers no other.
func (p *path) lets(now time.Time, s *link) bool {
	if p.isHeld() && !s.upstream.up && p.unheard < p.bound.Silent*4/3 && p.window.Free(now) {
		return true
	}
	return !s.waits && !p.blocked && p.free(now)
}

// count counts a datagram that leaves by the end of this turn.
func (ps *paths) count(now time.Time, p *path) {
	if p.window == nil {
		return
	}
	p.window.Count(now)
	if p.unheard++; p.bound.Silent == 0 {
		p.unheard, p.restsTo = 0, time.Time{}
	} else if p.isHeld() {
		p.restsTo = now.Add(silenceTime / time.Duration(p.bound.Datagrams))
	}
	if !p.moved {
		p.moved = true
		ps.moved = append(ps.moved, p)
	}
}

// paced reports whether bounded datagrams left since the last call of sent.
func (ps *paths) paced() bool { return len(ps.moved) > 0 }

// sent tells the paths when the datagrams of the last Flush have left. So a long turn does not count as a pause for
// the server.
func (ps *paths) sent(now time.Time) {
	for _, p := range ps.moved {
		p.moved = false
		if p.window != nil {
			p.window.Sent(now)
		}
	}
	clear(ps.moved)
	ps.moved = ps.moved[:0]
}

// block notes that a session or datagram waits on a path.
func (ps *paths) block(p *path) {
	if !p.blocked {
		p.blocked = true
		ps.blocked = append(ps.blocked, p)
	}
}

// blockedUntil returns when the first blocked path is free; zero means that no path with a bound is blocked.
func (ps *paths) blockedUntil() (next time.Time) {
	for _, p := range ps.blocked {
		if p.window == nil {
			continue // the bound was removed a moment ago: the next Flush sends them
		}
		if at := p.turn(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// turn returns when a datagram may leave again, of a path with a bound.
func (p *path) turn() time.Time {
	if at := p.window.Next(); at.After(p.restsTo) {
		return at
	}
	return p.restsTo
}

// patience delays a waiting session's deadline until its turn may come. Its codec has datagrams to send, and might
// ask to be called at once.
func (s *link) patience(at time.Time) time.Time {
	if !s.waits || s.path.window == nil {
		return at
	}
	if turn := s.path.turn(); at.Before(turn) {
		return turn
	}
	return at
}

// dial opens a socket to a server for a client. way may be nil.
func (u *Upstream) dial(sockets Sockets, way *path, server, client netip.AddrPort) (netio.Socket, error) {
	return u.Transport.dial(sockets, server, way.local(), client)
}

// maxParked bounds the datagrams of ModeRelay that wait on a path. 512 datagrams of 1,500 bytes are 768 KiB. At 150
// datagrams in 10 ms that is a delay of 34 ms. A longer delay harms a game more than a loss.
const maxParked = 512

// parked are datagrams that wait for their path: of sessions in ModeRelay, which have no codec that could keep them,
// and of sessions that were saved.
type parked struct{ fifo[parkedDatagram] }

type parkedDatagram struct {
	of    *Entry
	bytes []byte
}

// park keeps a copy of a datagram until the path is free. The path must be blocked then.
func (p *path) park(e *Entry, datagram []byte) {
	slot := p.parked.push()
	slot.of, slot.bytes = e, append(slot.bytes[:0], datagram...)
}

// rejoin returns the path of a session that had one before it was saved. It returns nil if there is no choice and no
// bound any more.
func (ps *paths) rejoin(now time.Time, u *Upstream, server netip.AddrPort, source netip.Addr) *path {
	switch {
	case u.Transport.Sources.IsValid():
		return ps.own(now, u)
	case !source.IsValid() && u.Pace.Datagrams == 0:
		return nil
	}
	p := ps.of(now, u, server, source)
	p.sessions++
	return p
}

// dialFrom opens a socket to a server for a client whose session comes from another Server. Where it can, it takes the
// source address that the session has had.
func (u *Upstream) dialFrom(sockets Sockets, to, source, client netip.AddrPort) (netio.Socket, error) {
	t := u.Transport
	if !t.Sources.IsValid() && !t.Pooled && !t.Transparent {
		o := netio.SocketOptions{Local: source.Addr(), LocalPort: source.Port(), ReceiveBuffer: t.ReceiveBuffer}
		if s, err := sockets.Dial(to, o); err == nil {
			return s, nil
		}
	}
	return t.dial(sockets, to, u.source(to.Addr()), client)
}
