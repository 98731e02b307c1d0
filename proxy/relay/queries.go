package relay

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/a2s"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

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
	if !ok || l.queries == nil || l.queries.family != a2s.Source || entry.protocol != Any {
		return false
	}
	parts := l.queries.answer(kind)
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

// answerWord answers a server browser that asks beside ENet's players, with its own challenge. The query proves no
// address, so that the answer is taken from the listener's budget. It reports false without an answer of the servers.
func (o *outlet) answerWord(now time.Time, l *listener, s netio.Socket, from netip.AddrPort, datagram []byte) bool {
	if l.queries == nil || l.queries.family != a2s.Quake {
		return false
	}
	kind, word, ok := a2s.ParseWord(datagram)
	if !ok {
		return false
	}
	parts := l.queries.answer(kind)
	if parts != nil {
		o.answer(now, l, s, from, datagram, a2s.AppendAnswer(o.Buffer(), (*parts)[0], word))
	}
	return parts != nil
}

// Times and bounds of a querier.
const (
	queryRefresh = 2 * time.Second  // from one round of queries to the next
	queryKeep    = 10 * time.Second // an answer of a silent server counts
	queryWanted  = time.Minute      // servers are asked after a client has asked
	mostParts    = 16               // of one answer
)

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
		q.kind, q.silences = q.family.First, 0
	case q.kind == q.family.Last:
		q.kind, q.silences = q.family.First, q.silences+1
	default:
		q.kind, q.silences = q.kind+1, q.silences+1
	}
	isSilent := q.silences > int(q.family.Last-q.family.First) && q.kind == q.family.First
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
	if q.kind == q.family.Last {
		q.kind = a2s.Kinds
		return
	}
	q.kind++
	q.ask(now, r)
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
