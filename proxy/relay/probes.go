package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/a2s"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
)

// A Relay asks servers beside the sessions: whether they live, their texts, and their answers to server browsers.

// checker checks the servers of an upstream. It runs in the first Relay, for all: their shared Pool has the results.
type checker struct {
	upstream *Upstream
	pool     *upstream.Pool
	protocol codec.Pinger // nil if checks join
	token    uint64       // in its questions
	due      time.Time    // when advance is due
	listed   []*upstream.Server
	servers  []*checked // the servers in listed
}

// checked is a checker's state about one server.
type checked struct {
	checker  *checker
	server   *upstream.Server
	socket   netio.Socket // nil while there is none
	conn     codec.Conn   // connection of a check that joins, until it has left
	askedAt  time.Time
	asking   bool      // the check has no result yet
	next     time.Time // when the next check is due
	failures int       // in a row
	known    bool      // it has answered the last check, and so needs no header again
	preamble *preamble
}

// newCheckers makes a checker for every upstream with checks.
func newCheckers(now time.Time, routes []*route, ids identities) (all []*checker) {
	var pools []*upstream.Pool
	for _, route := range routes {
		u := route.Upstream
		if u.Checks.By == CheckNothing || u.Checks.By == CheckHTTP || slices.Contains(pools, route.pool) {
			continue
		}
		pools = append(pools, route.pool)
		c := &checker{upstream: u, pool: route.pool, token: ids.next(), due: now}
		if u.Checks.By == CheckPing {
			c.protocol = u.Protocol.(codec.Pinger)
		}
		all = append(all, c)
	}
	return all
}

// stood gives servers that have been asked more time to answer.
func (c *checker) stood(d time.Duration) {
	for _, s := range c.servers {
		s.askedAt = s.askedAt.Add(d)
	}
}

// plan makes sure that a server is advanced in time.
func (c *checker) plan(s *checked) {
	at := s.next
	if s.conn != nil || s.asking {
		at = s.askedAt.Add(c.upstream.Checks.Timeout)
	}
	if s.conn != nil {
		if t := s.conn.NextTimeout(); !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if at.Before(c.due) {
		c.due = at
	}
}

func (s *checked) topic() topic {
	pool := s.checker.upstream
	return topic{transport: pool.Transport, upstream: true, pool: pool.Name}
}

// pinger asks the servers of a route for their texts, and makes the texts of the route's listeners from them.
type pinger struct {
	route     *route
	protocol  codec.Pinger
	token     uint64 // in its questions: an answer without it comes from a stranger
	due       time.Time
	absentAt  time.Time // before, servers that have not answered yet leave the text as it is
	listeners []*listener
	listed    []*upstream.Server
	servers   []*pinged // the servers in listed

	texts  [][]byte // scratch: the texts that count, in the order of servers
	joined []byte   // scratch
}

// pinged is a pinger's state about one server.
type pinged struct {
	pinger *pinger
	addr   netip.AddrPort
	socket netio.Socket // nil while there is none
	heard  time.Time    // when it last answered; zero: it has no text that counts
	text   []byte
	pong   []byte // the datagram with text
	// answers reports that the last question was answered. Otherwise the next question has a header again, as a
	// stranger's has: the server may have been restarted.
	answers  bool
	silences int // questions in a row without an answer
	preamble *preamble
}

// newPingers makes a pinger for every route whose listeners show its servers' texts.
func newPingers(now time.Time, routes []*route, listeners []*listener, ids identities) (all []*pinger) {
	for _, route := range routes {
		if route.Pings.Refresh <= 0 || route.Upstream.Transport.Stream {
			continue
		}
		protocol, _ := route.Upstream.Protocol.(codec.Pinger)
		var showing []*listener
		for _, l := range listeners {
			if l.route != route || l.pong == nil {
				continue
			}
			showing = append(showing, l)
			if protocol == nil && route.Mode == policy.ModeRelay {
				protocol = l.pinger() // the servers speak it too
			}
		}
		if protocol != nil && len(showing) > 0 {
			all = append(all, &pinger{
				route: route, protocol: protocol, token: ids.next(), due: now, absentAt: now.Add(route.Pings.Keep),
				listeners: showing,
			})
		}
	}
	return all
}

// close closes the pinger's sockets.
func (p *pinger) close() {
	for _, s := range p.servers {
		s.close()
	}
}

func (s *pinged) close() {
	if s.socket != nil {
		s.socket.Close()
	}
}

func (s *pinged) topic() topic { return topicOf(s.pinger.route, netip.AddrPort{}, 0) }

// querier asks one server of a route what server browsers want to know, while they ask.
type querier struct {
	route     *route
	family    a2s.Family
	listeners []*listener
	due       time.Time
	wanted    time.Time // when a client has asked
	place     int       // of the server in the Pool's list
	server    netip.AddrPort
	socket    netio.Socket // nil while there is none
	preamble  *preamble

	kind      a2s.Kind // the query of this round that has no answer yet; Kinds: none
	challenge uint32   // that the server has given
	given     bool     // the query was repeated with it
	silences  int      // rounds in a row with a query that got no answer
	heard     [a2s.Kinds]time.Time
	id        uint32 // of an answer in parts
	parts     [][]byte
}

// newQueriers makes a querier for every route whose listeners answer server browsers.
func newQueriers(now time.Time, routes []*route, listeners []*listener) (all []*querier) {
	for _, route := range routes {
		for _, family := range [...]a2s.Family{a2s.Source, a2s.Quake} {
			q := &querier{route: route, family: family, due: now, kind: a2s.Kinds, challenge: a2s.None}
			for kind := range q.heard {
				q.heard[kind] = now // answers from before a reload
			}
			for _, l := range listeners {
				if l.route == route && l.queries != nil && l.queries.family == family {
					q.listeners = append(q.listeners, l)
				}
			}
			if len(q.listeners) > 0 {
				all = append(all, q)
			}
		}
	}
	return all
}

func (q *querier) close() {
	if q.socket != nil {
		q.socket.Close()
		q.socket = nil
	}
}

func (q *querier) topic() topic { return topicOf(q.route, netip.AddrPort{}, 0) }
