package relay

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

// edgeRelay is a Relay in ModeRelay that NetherNet clients join.
type edgeRelay struct {
	*plainRelay
	tickets *joining.Tickets
	ended   []joining.Join
	check   byte // last byte of the last request's ID
}

var (
	edgeTarget  = netip.MustParseAddrPort("10.1.0.1:50123") // as the server's answer names it
	edgeRecord  = append([]byte{23, 0xfe, 0xfd}, make([]byte, 40)...)
	edgeLimits  = joining.DefaultLimits
	edgeMeeting = netip.MustParseAddr("198.51.100.7") // the address that joined over HTTP
)

func newEdge(t testing.TB) *edgeRelay {
	w := new(edgeRelay)
	w.tickets = joining.NewTickets(edgeLimits, func(j joining.Join) { w.ended = append(w.ended, j) })
	w.plainRelay = newPlainRelay(t, NetherNet, func(s *Settings) {
		s.Listeners[0].Joins, s.IdleTimeout = w.tickets, 5*time.Second
	})
	return w
}

// join makes a join with an answer.
func (w *edgeRelay) join(name string) *joining.Ticket {
	w.t.Helper()
	t, err := w.tickets.Ask(w.now, name, "arena", edgeMeeting, serverAddr)
	if err != nil {
		w.t.Fatal(err)
	}
	t.ServerUfrag, t.ServerPassword, t.ClientUfrag = "srv"+name, "password of 22 letters "+name, "cli"+name
	t.Target = edgeTarget
	if err := w.tickets.Answer(w.now, t); err != nil {
		w.t.Fatal(err)
	}
	return t
}

// request is a client's check of a path.
func (w *edgeRelay) request(t *joining.Ticket, nominates bool) []byte {
	w.check++
	n := t.Told()
	c := nethernet.Check{
		ID: nethernet.TransactionID{w.check, 1, 2, 3, w.check}, To: n.ServerUfrag, From: n.ClientUfrag, Nominates: nominates,
		Role: nethernet.Controlling,
	}
	return nethernet.NewIntegrity().AppendCheck(nil, c, n.ServerPassword)
}

// hears gives the Relay a client's datagram, and returns what the Relay has sent.
func (w *edgeRelay) hears(from netip.AddrPort, datagram []byte) []simDatagram {
	w.out = w.out[:0]
	w.Receive(w.now, from, listenerAddr, bytes.Clone(datagram))
	return w.out
}

// answers gives the Relay a datagram of the server for the n-th socket.
func (w *edgeRelay) answers(n int, datagram []byte) []simDatagram {
	w.out = w.out[:0]
	w.Receive(w.now, edgeTarget, upstreamSocketAddr(n), bytes.Clone(datagram))
	return w.out
}

// TestEdge lets a client come from two addresses, and then from a third one, as after a NAT has changed. The server
// sees one address all the time.
func TestEdge(t *testing.T) {
	w := newEdge(t)
	ticket := w.join("a")
	first, second, third := playerAddr(1), playerAddr(2), playerAddr(3)
	passes := func(from netip.AddrPort, datagram []byte) {
		t.Helper()
		out := w.hears(from, datagram)
		if len(out) != 1 || out[0].from != upstreamSocketAddr(0) || out[0].to != edgeTarget ||
			!bytes.Equal(out[0].bytes, datagram) {
			t.Fatalf("%x from %v became %v", datagram[:4], from, out)
		}
	}
	returns := func(to netip.AddrPort, datagram []byte) {
		t.Helper()
		if out := w.answers(0, datagram); len(out) != 1 || out[0].from != listenerAddr || out[0].to != to {
			t.Fatalf("the server's datagram became %v, want one to %v", out, to)
		}
	}
	success := func(request []byte) []byte {
		var b nethernet.Binding
		if err := b.Parse(request); err != nil {
			t.Fatal(err)
		}
		return nethernet.NewIntegrity().AppendSuccess(nil, b.ID, first, ticket.Told().ServerPassword)
	}
	one, two := w.request(ticket, false), w.request(ticket, false)
	passes(first, one)
	passes(second, two)
	returns(second, success(two)) // a response goes to the address that has asked
	returns(first, success(one))
	returns(first, edgeRecord)
	passes(second, w.request(ticket, true))
	returns(second, edgeRecord)
	passes(second, edgeRecord)
	if s := w.relay.Snapshot(w.now).Sessions; len(s) != 1 || !s[0].Established || s[0].Server != serverAddr {
		t.Fatalf("sessions: %+v", s)
	}
	w.wait(2 * time.Second)
	passes(third, w.request(ticket, false)) // the NAT has another port now
	returns(third, edgeRecord)
	w.wait(40 * time.Second)
	if w.relay.Len() != 0 || len(w.ended) != 1 || w.ended[0].Stage != joining.Lost || w.ended[0].From != first {
		t.Errorf("%d sessions; ended: %v", w.relay.Len(), w.ended)
	}
	if j := w.relay.listeners[0].joins; len(j.sources)+len(j.sessions) != 0 {
		t.Errorf("%d addresses and %d sessions are left", len(j.sources), len(j.sessions))
	}
	if _, sessions := w.tickets.Sizes(); sessions != 0 {
		t.Errorf("%d sessions in the table of joins", sessions)
	}
}

// TestEdgeStrangers sends what strangers can send, before and while a client plays. Nothing is passed on or answered.
func TestEdgeStrangers(t *testing.T) {
	w := newEdge(t)
	ticket, other := w.join("a"), w.join("b")
	stranger, client := playerAddr(9), playerAddr(1)
	wrong := &joining.Ticket{Names: &joining.Names{
		ServerUfrag: "srva", ServerPassword: "another password of 22", ClientUfrag: "clia",
	}}
	unknown := &joining.Ticket{Names: &joining.Names{
		ServerUfrag: ticket.Told().ServerUfrag, ServerPassword: ticket.Told().ServerPassword, ClientUfrag: "else",
	}}
	valid := w.request(ticket, true)
	changed := bytes.Clone(valid)
	changed[len(changed)-1] ^= 1
	strange := map[string]struct {
		datagram []byte
		why      stats.Drop
	}{
		"a wrong password":      {w.request(wrong, true), stats.DropUnknownProtocol},
		"unknown names":         {w.request(unknown, true), stats.DropUnknownProtocol},
		"a changed fingerprint": {changed, stats.DropMalformed},
		"a DTLS record":         {edgeRecord, stats.DropUnknownProtocol},
		"a RakNet datagram":     {[]byte{0x84, 1, 0, 0, 0}, stats.DropUnknownProtocol},
	}
	silent := func(when string) {
		t.Helper()
		for name, c := range strange {
			before := w.relay.counters.Drops[c.why]
			if out := w.hears(stranger, c.datagram); len(out) != 0 || w.relay.counters.Drops[c.why] != before+1 {
				t.Errorf("%s, %s: %d datagrams leave, dropped %v", when, name, len(out), w.relay.counters.Drops)
			}
		}
	}
	silent("before")
	if len(w.hears(client, valid)) != 1 {
		t.Fatal("the client does not come in")
	}
	silent("while a client plays")
	if out := w.hears(stranger, valid); len(out) != 0 {
		t.Errorf("a recorded request passes from another address: %v", out)
	}
	if out := w.answers(0, edgeRecord); len(out) != 1 || out[0].to != client {
		t.Errorf("the server's datagram goes to %v", out)
	}
	if out := w.hears(client, w.request(other, true)); len(out) != 0 {
		t.Errorf("one session takes the join of another: %v", out)
	}
	w.now = w.now.Add(edgeLimits.Patience)
	if out := w.hears(playerAddr(2), w.request(other, true)); len(out) != 0 {
		t.Errorf("a join that is over admits: %v", out)
	}
}

// TestEdgeComesAgain joins once more from the address of a session. It gets in when the session has been silent for so
// long that it cannot live. A client that seems to have closed its connection is soon gone.
func TestEdgeComesAgain(t *testing.T) {
	w := newEdge(t)
	first, client := w.join("a"), playerAddr(1)
	w.hears(client, w.request(first, true))
	w.answers(0, edgeRecord)
	w.hears(client, edgeRecord)
	second := w.join("b")
	w.wait(edgeQuiet - time.Millisecond)
	if out := w.hears(client, w.request(second, true)); len(out) != 0 {
		t.Errorf("a living session is replaced: %v", out)
	}
	w.wait(time.Millisecond)
	if out := w.hears(client, w.request(second, true)); len(out) != 1 || out[0].from != upstreamSocketAddr(1) {
		t.Fatalf("the second join sends %v", out)
	}
	if w.relay.Len() != 1 || len(w.ended) != 1 {
		t.Errorf("%d sessions, %d joins are over", w.relay.Len(), len(w.ended))
	}
	w.answers(1, edgeRecord)
	w.hears(client, append([]byte{21}, edgeRecord[1:]...))
	w.hears(client, edgeRecord) // it was no close
	w.wait(edgeClose + time.Second)
	if w.relay.Len() != 1 {
		t.Fatal("a living session has ended")
	}
	w.hears(client, append([]byte{21}, edgeRecord[1:]...))
	w.wait(edgeClose)
	w.wait(time.Second)
	if w.relay.Len() != 0 {
		t.Error("the session does not end after its close")
	}
}

// newEdgePair returns the Relays of two loops, whose clients may be of any other protocol, too.
func newEdgePair(t *testing.T) (a, b *edgeRelay) {
	t.Helper()
	tickets := joining.NewTickets(edgeLimits, nil)
	handed := new(Handed)
	var loops []*edgeRelay
	for i := range 2 {
		w := &edgeRelay{tickets: tickets, plainRelay: newPlainRelay(t, NetherNet, func(s *Settings) {
			s.Listeners[0].Joins = tickets
			s.Listeners[0].Protocols = append(s.Listeners[0].Protocols, Any)
		})}
		w.relay.shard, w.relay.handed = shard{i, 2}, handed
		loops = append(loops, w)
	}
	return loops[0], loops[1]
}

// TestEdgeOverLoops lets the kernel choose another loop for a client's second address. Both reach the one session.
func TestEdgeOverLoops(t *testing.T) {
	a, b := newEdgePair(t)
	ticket := a.join("a")
	if len(a.hears(playerAddr(1), a.request(ticket, false))) != 1 {
		t.Fatal("the client does not come in")
	}
	for i, datagram := range [][]byte{a.request(ticket, true), edgeRecord} {
		if out := b.hears(playerAddr(2), datagram); len(out) != 0 {
			t.Fatalf("the other loop sends %v", out)
		}
		a.out = a.out[:0]
		a.relay.Advance(a.now)
		if len(a.out) != 1 || !bytes.Equal(a.out[0].bytes, datagram) || a.out[0].to != edgeTarget {
			t.Fatalf("datagram %d of the second address became %v", i, a.out)
		}
	}
	if out := a.answers(0, edgeRecord); len(out) != 1 || out[0].to != playerAddr(2) {
		t.Errorf("the server's datagram goes to %v", out)
	}
	if b.relay.Len() != 0 {
		t.Error("the other loop has a session, too")
	}
	for i := range maxElsewhere + 2 { // a client with the password can have any number of addresses
		b.hears(strangerAddr(i), a.request(ticket, false))
	}
	if n := len(b.relay.listeners[0].joins.elsewhere); n > maxElsewhere {
		t.Errorf("%d addresses are remembered", n)
	}
	if n := a.relay.handed.count.Load(); n != maxHanded {
		t.Errorf("%d datagrams wait for a loop, want %d", n, maxHanded)
	}
}

// TestEdgeOverLoopsEnds has a client of another protocol use an address after a NetherNet session of another loop: the
// session is over, or its client has left the address. The client reaches the server from its first datagram on.
func TestEdgeOverLoopsEnds(t *testing.T) {
	for name, leave := range map[string]func(a *edgeRelay, ticket *joining.Ticket){
		"over": func(a *edgeRelay, _ *joining.Ticket) { a.wait(time.Minute) },
		"moved": func(a *edgeRelay, ticket *joining.Ticket) {
			for i := range 8 { // more addresses than a client has at once
				a.wait(time.Second)
				a.hears(playerAddr(10+i), a.request(ticket, true))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newEdgePair(t)
			ticket := a.join("a")
			a.hears(playerAddr(1), a.request(ticket, false))
			b.hears(playerAddr(2), a.request(ticket, true))
			a.relay.Advance(a.now)
			b.hears(playerAddr(2), edgeRecord) // b knows by now where the session is
			a.relay.Advance(a.now)
			leave(a, ticket)
			b.now = a.now
			for i := range 3 {
				b.hears(playerAddr(2), []byte("the first words of another game"))
				a.relay.Advance(a.now)
				b.relay.Advance(b.now)
				if len(b.out) != 1 || b.out[0].to == edgeTarget {
					t.Fatalf("datagram %d of another client: %v; dropped %v", i, b.out, b.relay.counters.Drops)
				}
			}
			if n := len(b.relay.listeners[0].joins.elsewhere); n != 0 || b.relay.Len() != 1 {
				t.Errorf("%d addresses are remembered, %d sessions", n, b.relay.Len())
			}
		})
	}
}

// TestEdgeAllocatesNothing relays DTLS records both ways, and judges strangers' requests.
func TestEdgeAllocatesNothing(t *testing.T) {
	w := newEdge(t)
	ticket := w.join("a")
	w.hears(playerAddr(1), w.request(ticket, true))
	w.answers(0, edgeRecord)
	w.relay.sockets.Sockets = &swallower{relayNode: w.relayNode}
	unknown := &joining.Ticket{Names: &joining.Names{
		ServerUfrag: ticket.Told().ServerUfrag, ServerPassword: ticket.Told().ServerPassword, ClientUfrag: "else",
	}}
	junk, listener, up := w.request(unknown, true), w.sockets[listenerAddr], w.sockets[upstreamSocketAddr(0)]
	record := slices.Clone(edgeRecord)
	if n := allocs.PerRun(1000, func() {
		w.relay.Receive(w.now, listener, playerAddr(1), record)
		w.relay.Receive(w.now, up, edgeTarget, record)
		w.relay.Receive(w.now, listener, playerAddr(9), junk)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEdgeInTheKernel gives a session's records to the Forwarder. The flow moves when the client comes from another
// address, and not while the kernel hears the old one.
func TestEdgeInTheKernel(t *testing.T) {
	w := newEdge(t)
	f := &ferry{flows: make(map[flow.Flow]*flow.Usage)}
	w.relay.offload.forwarder = f
	ticket := w.join("a")
	w.hears(playerAddr(1), w.request(ticket, true))
	f.want(t, "before the server has answered")
	w.answers(0, edgeRecord)
	w.hears(playerAddr(1), edgeRecord)
	first, second := flowOf(1, 0, edgeTarget), flowOf(2, 0, edgeTarget)
	f.want(t, "once both have spoken", first)
	if !f.rate.Records {
		t.Error("checks do not reach user space")
	}
	w.wait(3 * time.Second)
	w.hears(playerAddr(2), w.request(ticket, false))
	f.want(t, "while the kernel hears the first address", first)
	f.flows[first].FromClient = flow.Count{Packets: 7, Bytes: 700}
	f.flows[first].ClientIdle = 2 * time.Second
	w.wait(2 * time.Second)
	w.hears(playerAddr(2), w.request(ticket, false))
	f.want(t, "after the NAT has changed", second)
	if s := w.relay.Snapshot(w.now).Sessions[0]; s.FromClient.Messages != 11 {
		t.Errorf("%d datagrams came from the client, want 11", s.FromClient.Messages)
	}
	if out := w.answers(0, edgeRecord); len(out) != 1 || out[0].to != playerAddr(2) {
		t.Errorf("the server's datagram goes to %v", out)
	}
	for range 5 {
		f.flows[second].ClientIdle = time.Second
		w.wait(30 * time.Second)
	}
	f.want(t, "while the client plays in the kernel", second)
	f.flows[second].ClientIdle = time.Minute
	w.wait(nethernet.Spec.IdleTimeout + time.Second)
	f.want(t, "after its end")
}

// TestEdgeCannotBeTerminated asserts that the protocol says so.
func TestEdgeCannotBeTerminated(t *testing.T) {
	if _, _, err := NetherNet.Accept(time.Time{}, playerAddr(1), nil, nil); !errors.Is(err, errAny) {
		t.Error(err)
	}
	if NetherNet.Sniff([]byte{0x84}) || NetherNet.Spec().Name != "nethernet" {
		t.Error("it takes RakNet")
	}
}

// TestEdgeTakesItsPlace lets a session take over the place that its join holds at the server.
func TestEdgeTakesItsPlace(t *testing.T) {
	w := newEdge(t)
	pool := w.relay.routes[0].pool
	counts := func(want int) {
		t.Helper()
		if n := pool.Status(w.now)[0].Sessions; n != want {
			t.Errorf("the server counts %d sessions and joins, want %d", n, want)
		}
	}
	ticket := w.join("a")
	w.tickets.Place(ticket, serverAddr, pool.Hold(serverAddr))
	counts(1)
	w.hears(playerAddr(1), w.request(ticket, true))
	counts(1)
	w.wait(40 * time.Second)
	counts(0)
}

// TestEdgeOutlivesAnUpgrade lets a new Relay take over a session with two addresses, and a join that waits.
func TestEdgeOutlivesAnUpgrade(t *testing.T) {
	w := newEdge(t)
	ticket, later := w.join("a"), w.join("b")
	w.hears(playerAddr(1), w.request(ticket, true))
	w.hears(playerAddr(2), w.request(ticket, true))
	w.answers(0, edgeRecord)
	w.hears(playerAddr(2), edgeRecord)
	shared, all := exportAll(w.relay, w.now)
	next := newEdge(t)
	next.check = w.check
	pool := next.relay.routes[0].pool
	next.sockets[upstreamSocketAddr(0)] = w.sockets[upstreamSocketAddr(0)]
	importAll(t, next.relay, next.now, shared, all)
	if n := pool.Status(next.now)[0].Sessions; n != 2 {
		t.Errorf("the server counts %d sessions and joins", n)
	}
	if out := next.answers(0, edgeRecord); len(out) != 1 || out[0].to != playerAddr(2) {
		t.Fatalf("the server's datagram became %v", out)
	}
	for _, datagram := range [][]byte{edgeRecord, next.request(ticket, true)} {
		if out := next.hears(playerAddr(1), datagram); len(out) != 1 || out[0].to != edgeTarget {
			t.Fatalf("the client's datagram became %v", out)
		}
	}
	if out := next.hears(playerAddr(3), next.request(ticket, false)); len(out) != 1 {
		t.Error("a new address of the client is not let in")
	}
	if out := next.hears(playerAddr(4), next.request(later, true)); len(out) != 1 {
		t.Error("a join that waited is lost")
	}
	if waiting, sessions := next.tickets.Sizes(); waiting != 0 || sessions != 2 || next.relay.Len() != 2 {
		t.Errorf("%d joins wait, %d have sessions, %d sessions", waiting, sessions, next.relay.Len())
	}
}

// TestEdgeServerRefuses lets a session ask only the server that has answered its join, although that one's port is
// closed at first. If it never answers, the join says so.
func TestEdgeServerRefuses(t *testing.T) {
	for _, opens := range []bool{true, false} {
		w := newEdge(t)
		ticket, client := w.join("a"), playerAddr(1)
		for range 6 {
			if out := w.hears(client, w.request(ticket, true)); len(out) != 1 || out[0].to != edgeTarget {
				t.Fatalf("the request became %v", out)
			}
			w.relay.Failed(w.now, w.sockets[upstreamSocketAddr(0)], netio.ErrRefused)
			w.wait(500 * time.Millisecond)
		}
		if opens {
			if out := w.answers(0, edgeRecord); len(out) != 1 || out[0].to != client {
				t.Errorf("the server's datagram became %v", out)
			}
			continue
		}
		w.wait(w.settings.HandshakeTimeout)
		if len(w.ended) != 1 || w.ended[0].Stage != joining.Failed ||
			!strings.Contains(w.ended[0].Reason, edgeTarget.String()) {
			t.Errorf("ended: %v", w.ended)
		}
	}
}

// TestEdgeFaces answers each check from the address that it has reached.
func TestEdgeFaces(t *testing.T) {
	w := newEdge(t)
	ticket, first, second := w.join("a"), playerAddr(1), playerAddr(2)
	w.hears(first, w.request(ticket, true))
	s := &w.relay.listeners[0].joins.sessions[ticket].Value
	here, there := s.face, netio.Socket(&simSocket{})
	s.hears(second, there)
	if s.faceTo(first) != here || s.faceTo(second) != there || s.face != here {
		t.Error("a source is answered from another address than it has reached")
	}
}

// TestEdgeMalformedRequest drops a request that names no join, also from a player's address.
func TestEdgeMalformedRequest(t *testing.T) {
	w := newStacked(t)
	ticket, client := w.joinStacked("a"), playerAddr(1)
	whole := w.request(ticket, true)
	w.hears(client, whole)
	bare := append([]byte{0, 1, 0, 8}, whole[4:20]...)
	bare = append(bare, 0, 0x24, 0, 5, 1, 2, 3, 4) // a priority of the wrong size
	if out := w.hears(client, bare); len(out) != 0 || w.relay.counters.Drops[stats.DropMalformed] != 1 {
		t.Errorf("%v; dropped %v", out, w.relay.counters.Drops)
	}
}
