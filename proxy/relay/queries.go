package relay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/a2s"
	"tidegate/internal/netio"
	"tidegate/internal/siphash"
	"tidegate/proxy/stats"
)

// Queries are a listener's answers to server browsers (A2S), as its servers give them. One Relay writes them, and the
// others read them. It is safe for concurrent use.
type Queries struct {
	key     [2]uint64
	asked   atomic.Bool // a client has asked since the querier last looked
	answers [a2s.Kinds]atomic.Pointer[[][]byte]
}

// NewQueries returns Queries without answers. Challenges are made from the seed.
func NewQueries(seed [32]byte) *Queries {
	return &Queries{key: [2]uint64{binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])}}
}

// challengeTime is how long a challenge is given. It counts as long again.
const challengeTime = time.Minute

// challenge returns the number that proves the address of a client at a time.
func (q *Queries) challenge(now time.Time, client netip.AddrPort) uint32 {
	address := client.Addr().As16()
	h := siphash.New(q.key[0], q.key[1])
	h.Word(binary.LittleEndian.Uint64(address[:]), 2)
	h.Word(binary.LittleEndian.Uint64(address[8:]), 2)
	h.Word(uint64(client.Port())|uint64(now.Unix()/int64(challengeTime/time.Second))<<16, 2)
	return uint32(h.Sum(4)) &^ (1 << 31) // None is no challenge
}

func (q *Queries) isProved(now time.Time, client netip.AddrPort, given uint32) bool {
	return given == q.challenge(now, client) || given == q.challenge(now.Add(-challengeTime), client)
}

// askServers lets pingers and queriers send the questions that are due.
func askServers(now time.Time, r *Relay) {
	for _, p := range r.pingers {
		p.advance(now, r)
	}
	for _, q := range r.queriers {
		q.advance(now, r)
	}
}

// nextQuestion returns when askServers must be called next. Zero means never.
func nextQuestion(r *Relay) (next time.Time) {
	for _, p := range r.pingers {
		next = codec.Earliest(next, p.due)
	}
	for _, q := range r.queriers {
		next = codec.Earliest(next, q.due)
	}
	return next
}

// answerQuery answers a server browser that asks through a relay, once its challenge has proved its address. It reports
// whether it could: without an answer of the servers, the query is theirs.
func (o *outlet) answerQuery(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) bool {
	kind, given, ok := a2s.ParseQuery(datagram)
	if !ok || l.queries == nil || entry.protocol != Any {
		return false
	}
	if !l.queries.asked.Load() {
		l.queries.asked.Store(true)
	}
	parts := l.queries.answers[kind].Load()
	switch {
	case parts == nil:
		return false
	case !l.queries.isProved(now, from, given):
		o.answer(now, l, s, from, datagram, a2s.AppendChallenge(o.Buffer(), l.queries.challenge(now, from)))
	case !l.mayAnswer(now, from):
		o.drops.add(now, dropped{stats.DropPingBudget, l, from, len(datagram), nil})
	default:
		o.drops.has(stats.FateAnswered)
		for _, part := range *parts {
			o.counters.Clients.Out.Count(part)
			o.sendAnswer(l, s, from, append(o.Buffer(), part...))
		}
	}
	return true
}

// Times and bounds of a querier.
const (
	queryRefresh = 2 * time.Second  // from one round of queries to the next
	queryKeep    = 10 * time.Second // an answer of a silent server counts
	queryWanted  = time.Minute      // servers are asked after a client has asked
	mostParts    = 16               // of one answer
)

// querier asks one server of a route what server browsers want to know, while they ask.
type querier struct {
	route     *route
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
		q := &querier{route: route, due: now, kind: a2s.Kinds, challenge: a2s.None}
		for kind := range q.heard {
			q.heard[kind] = now // answers from before a reload
		}
		for _, l := range listeners {
			if l.route == route && l.queries != nil {
				q.listeners = append(q.listeners, l)
			}
		}
		if len(q.listeners) > 0 {
			all = append(all, q)
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

// advance begins a round of queries once it is due. An unanswered query makes room for the next one, and a silent
// server for another.
func (q *querier) advance(now time.Time, r *Relay) {
	if now.Before(q.due) {
		return
	}
	q.due = now.Add(queryRefresh)
	for _, l := range q.listeners {
		if l.queries.asked.Swap(false) {
			q.wanted = now
		}
	}
	for kind := range q.heard {
		if now.Sub(q.heard[kind]) > queryKeep {
			q.publish(a2s.Kind(kind), nil)
		}
	}
	servers := q.route.pool.Servers()
	switch {
	case now.Sub(q.wanted) > queryWanted || len(servers) == 0:
		q.kind = a2s.Kinds
		q.close()
		return
	case q.kind == a2s.Kinds:
		q.kind, q.silences = a2s.Info, 0
	default:
		q.kind, q.silences = (q.kind+1)%a2s.Kinds, q.silences+1
	}
	isSilent := q.silences >= int(a2s.Kinds) && q.kind == a2s.Info
	if isSilent {
		q.place, q.silences = q.place+1, 0
	}
	// A silent server may have begun anew, or a NAT may lead the old port elsewhere.
	if to := servers[q.place%len(servers)].Addr; to != q.server || isSilent {
		q.close()
		q.server, q.challenge = to, a2s.None
	}
	q.ask(now, r)
}

// ask sends the present query.
func (q *querier) ask(now time.Time, r *Relay) {
	if q.socket == nil {
		socket, err := r.sockets.Dial(q.server, netio.SocketOptions{Local: q.route.Upstream.source(q.server.Addr())})
		if err != nil {
			r.drops.count(now, dropped{stats.DropSocket, q.listeners[0], q.server, 0, err})
			return
		}
		socket.SetOwner(q)
		q.socket, q.preamble = socket, newPreamble(q.route.Upstream.Headers, socket.Addr(), socket.Addr())
	}
	q.parts, q.given = nil, false
	q.send(r)
}

func (q *querier) send(r *Relay) {
	query := a2s.AppendQuery(q.preamble.begin(r.sockets.Buffer()), q.kind, q.challenge)
	r.counters.Upstreams.Out.Count(query)
	r.sockets.Send(q.socket, q.server, query)
	q.preamble.sent()
}

// answered handles a datagram from the server's address.
func (q *querier) answered(now time.Time, r *Relay, datagram []byte) {
	datagram = q.preamble.heard(datagram)
	given, isChallenge := a2s.ParseChallenge(datagram)
	switch {
	case q.kind == a2s.Kinds || isChallenge && q.given:
		r.drops.add(now, dropped{stats.DropUnexpected, q.listeners[0], q.server, len(datagram), codec.ErrUnexpected})
		return
	case isChallenge:
		q.challenge, q.given = given, true
		q.send(r)
	case a2s.IsAnswer(datagram, q.kind):
		q.complete(now, r, [][]byte{bytes.Clone(datagram)})
	case !q.join(now, r, datagram):
		r.drops.add(now, dropped{stats.DropMalformed, q.listeners[0], q.server, len(datagram), codec.ErrMalformed})
		return
	}
	r.drops.has(stats.FateTaken)
}

// join takes a part of an answer. It reports false for anything else.
func (q *querier) join(now time.Time, r *Relay, datagram []byte) bool {
	id, number, total, ok := a2s.ParsePart(datagram)
	if !ok || total > mostParts {
		return false
	}
	if id != q.id || len(q.parts) != total {
		q.id, q.parts = id, make([][]byte, total)
	}
	q.parts[number] = bytes.Clone(datagram)
	if !slices.ContainsFunc(q.parts, func(part []byte) bool { return part == nil }) {
		q.complete(now, r, q.parts)
	}
	return true
}

// complete publishes an answer, and goes on to the next query of the round.
func (q *querier) complete(now time.Time, r *Relay, parts [][]byte) {
	q.heard[q.kind] = now
	q.publish(q.kind, parts)
	q.parts, q.silences = nil, 0 // many servers never answer one of the kinds
	if q.kind++; q.kind < a2s.Kinds {
		q.ask(now, r)
	}
}

func (q *querier) publish(kind a2s.Kind, parts [][]byte) {
	for _, l := range q.listeners {
		if parts == nil {
			l.queries.answers[kind].Store(nil)
		} else {
			l.queries.answers[kind].Store(&parts)
		}
	}
}

func (q *querier) topic() topic { return topicOf(q.route, netip.AddrPort{}, 0) }
