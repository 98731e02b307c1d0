package upstream

import (
	"slices"
	"testing"
	"time"
)

// queue is a Pool of lost servers whose held sessions wait.
type queue struct {
	*Pool
	t     *testing.T
	now   time.Time
	woken []int
	all   map[uint16]*Ticket
}

// newQueue enqueues sessions with these client IDs, alternately of two shards.
func newQueue(t *testing.T, servers []Target, clients ...uint16) *queue {
	t.Helper()
	q := &queue{t: t, now: now, all: make(map[uint16]*Ticket)}
	pools := &Pools{Wake: func(shard int) { q.woken = append(q.woken, shard) }}
	q.Pool = pools.Get("arena")
	q.Update(servers, Options{RetryAfter: 5 * time.Second})
	for i, c := range clients {
		q.all[c] = &Ticket{Client: c, Shard: i % 2, Addr: client}
		q.Enqueue(q.all[c], q.Servers()[0])
		q.Ready(q.all[c])
	}
	return q
}

// turn expects that a session has its turn, at a server.
func (q *queue) turn(want uint16, at int) *Ticket {
	q.t.Helper()
	for shard := range 2 {
		ticket, s := q.NextTurn(q.now, shard)
		if ticket == nil {
			continue
		}
		if ticket.Client != want || ticket.Shard != shard || s != q.Servers()[at] {
			q.t.Fatalf("it is the turn of %d at %v, want %d", ticket.Client, s, want)
		}
		q.none()
		return ticket
	}
	q.t.Fatalf("no session has a turn, want %d", want)
	return nil
}

// none expects that no session has a turn.
func (q *queue) none() {
	q.t.Helper()
	for shard := range 2 {
		if ticket, _ := q.NextTurn(q.now, shard); ticket != nil {
			q.t.Fatalf("it is the turn of %d, want no turn", ticket.Client)
		}
	}
}

// over undoes the count of a session at a server.
func (q *queue) over(ticket *Ticket, at int) { q.Release(q.Servers()[at]) }

func (q *queue) lose() {
	home := q.Servers()[0]
	q.Failed(home, q.now, q.now, "refused")
	q.Suspect(home, q.now, q.now)
}

func TestTurnsGoByClientID(t *testing.T) {
	q := newQueue(t, targetsAt(a), 30, 10, 20)
	for _, c := range []uint16{10, 20, 30} {
		q.Dequeue(q.turn(c, 0))
	}
	q.none()
	if len(q.pools.WithQueues()) > 0 || len(q.queued) > 0 {
		t.Error("an empty line is kept")
	}
	q.Dequeue(q.all[10]) // a second call does nothing
}

// TestTurnsWait checks that turns wait for sessions that have not left their server, and for servers that have just
// refused.
func TestTurnsWait(t *testing.T) {
	q := newQueue(t, targetsAt(a), 20)
	q.Enqueue(&Ticket{Client: 10}, q.Servers()[0])
	q.none()
	q.Dequeue(q.Servers()[0].queue.tickets[0])
	again := q.turn(20, 0)
	q.over(again, 0)
	q.Failed(q.Servers()[0], q.now, q.now, "refused")
	q.Retry(again, q.now, false)
	q.none()
	q.now = q.now.Add(askAgain)
	q.turn(20, 0)
}

// TestTurnsAreYielded checks that a session yields its turn if its server does not answer it although others hear the
// server.
func TestTurnsAreYielded(t *testing.T) {
	q := newQueue(t, targetsAt(a), 1, 2, 3)
	stuck := q.turn(1, 0)
	q.woken = nil
	q.Yield(stuck)
	if !slices.Equal(q.woken, []int{1}) {
		t.Errorf("woken: %v, want the second's shard", q.woken)
	}
	second := q.turn(2, 0)
	q.over(second, 0)
	q.Retry(second, q.now, true)
	q.Dequeue(q.turn(3, 0))
	q.none() // the first is still asking
	q.now = q.now.Add(time.Second)
	q.Dequeue(stuck)
	q.turn(2, 0)
}

// TestTurnsFollowOffers checks that the session with the next client ID asks next. So few sessions lose their IDs
// after a wrong start, and freed IDs are used.
func TestTurnsFollowOffers(t *testing.T) {
	q := newQueue(t, targetsAt(a), 1, 2, 3, 5, 6)
	q.lose()
	free := []uint16{3, 4, 5, 6, 7, 8, 2} // another client has 1; 2 was freed
	var regained []uint16
	ended := 0
	for range 50 {
		q.now = q.now.Add(time.Second)
		for shard := range 2 {
			ticket, s := q.NextTurn(q.now, shard)
			switch {
			case ticket == nil:
				continue
			case s == nil:
				ended++
				q.Dequeue(ticket)
				continue
			}
			id := free[0]
			free = free[1:]
			if id == ticket.Client {
				regained = append(regained, id)
				q.Dequeue(ticket)
				continue
			}
			free = append(free, id)
			q.over(ticket, 0)
			if !q.OfferedID(ticket, id) {
				ended++
				q.Dequeue(ticket)
			}
		}
	}
	slices.Sort(regained)
	if !slices.Equal(regained, []uint16{2, 3, 5, 6}) || ended != 1 {
		t.Errorf("%v have their client IDs again, %d ended", regained, ended)
	}
}

// TestOffersOfOthers checks that a server that has not lost the session is asked as long as its offers rise towards
// the session's ID.
func TestOffersOfOthers(t *testing.T) {
	q := newQueue(t, targetsAt(a, b), 3, 100)
	q.lose()
	for _, offer := range []struct {
		id   uint16
		wait bool
	}{{2, true}, {9, true}} { // 9 is too high: the session waits for its own server
		if got := q.offer(3, 1, offer.id); got != offer.wait {
			t.Errorf("offered %d: waits = %v", offer.id, got)
		}
	}
	for id := uint16(10); id < 10+maxForeignOffers; id++ { // the last of them is too many
		if !q.offer(100, 1, id) {
			t.Errorf("gives up at %d", id)
		}
	}
	q.now = q.now.Add(10 * time.Second)
	q.turn(100, 0) // 41 was offered last
}

// offer makes a session ask a server, which offers it a client ID. It returns whether the session waits again.
func (q *queue) offer(client uint16, at int, id uint16) bool {
	q.t.Helper()
	ticket := q.turn(client, at)
	q.over(ticket, at)
	return q.OfferedID(ticket, id)
}

// TestSuspectedServers checks that a queue waits until all sessions of a server are in it, or no session hears the
// server.
func TestSuspectedServers(t *testing.T) {
	q := newQueue(t, targetsAt(a, b), 2)
	home := q.Take(a) // a session that has noticed nothing
	_ = q.Drain(q.now, b, true)
	q.woken = nil
	q.lose()
	if !slices.Contains(q.woken, AllShards) {
		t.Error("the Relays were not told")
	}
	q.none()
	lost, next := q.LostServer(q.now, 0)
	if lost != nil || next != q.now.Add(confirmTime) {
		t.Errorf("lost %v, next in %v", lost, next.Sub(q.now))
	}
	q.now = q.now.Add(confirmTime)
	for shard := range 2 {
		if lost, _ := q.LostServer(q.now, shard); lost != home {
			t.Errorf("shard %d gets %v", shard, lost)
		}
		q.SessionsHeld(home, q.now, shard, false)
		if lost, _ := q.LostServer(q.now, shard); lost != home {
			t.Errorf("shard %d gets no lost server", shard)
		}
		q.SessionsHeld(home, q.now, shard, true)
		if lost, _ := q.LostServer(q.now, shard); lost != nil {
			t.Errorf("shard %d gets the same server twice", shard)
		}
	}
	q.none()
	q.Enqueue(&Ticket{Client: 1}, home)
	q.Ready(home.queue.tickets[0])
	q.Release(home) // now it is queued
	q.turn(1, 0)
	home.Heard(q.now)
	q.now = q.now.Add(time.Minute)
	q.Suspect(home, q.now, q.now)
	if lost, _ := q.LostServer(q.now.Add(confirmTime), 0); lost != home {
		t.Error("a server that was back and is lost again is not suspected")
	}
}

// TestAcquittedServers checks that a server that others hear is lost to one session only.
func TestAcquittedServers(t *testing.T) {
	q := newQueue(t, targetsAt(a), 1)
	home := q.Take(a)
	q.lose()
	if q.Pick(q.now, client, nil) != nil || !q.AnyReserved() || !q.IsReserved(home) {
		t.Error("a new session may take the place of a held one")
	}
	home.Heard(q.now.Add(500 * time.Millisecond))
	q.now = q.now.Add(510 * time.Millisecond)
	if lost, next := q.LostServer(q.now, 0); lost != nil || !next.IsZero() || q.AnyReserved() {
		t.Errorf("lost %v; reserved %v", lost, q.AnyReserved())
	}
	q.Suspect(home, q.now, q.now) // by another loop's session
	if q.AnyReserved() {
		t.Error("suspected again at once")
	}
	q.turn(1, 0)
}

// TestQueuesOfRemovedServers checks that their sessions ask the other servers, and the same server if it is listed
// again.
func TestQueuesOfRemovedServers(t *testing.T) {
	q := newQueue(t, targetsAt(a), 1)
	home := q.Servers()[0]
	q.Update(targetsAt(b), Options{})
	ticket := q.turn(1, 0)
	q.over(ticket, 0)
	q.Retry(ticket, q.now, false)
	q.Update(targetsAt(a, b), Options{})
	if q.Servers()[0] != home {
		t.Fatal("the server has lost its identity")
	}
	q.now = q.now.Add(time.Second)
	q.turn(1, 0)
}

// TestReservationsEnd checks that a reservation ends when the queued sessions fail although others hear the server.
// New sessions cannot wait for sessions that may never reach it.
func TestReservationsEnd(t *testing.T) {
	q := newQueue(t, targetsAt(a), 1, 2)
	q.lose()
	for _, c := range []uint16{1, 2} {
		if !q.AnyReserved() {
			t.Fatal("the server is not reserved for its sessions")
		}
		ticket := q.turn(c, 0)
		q.over(ticket, 0)
		q.Retry(ticket, q.now, true)
	}
	if q.AnyReserved() || q.Pick(q.now.Add(time.Minute), client, nil) == nil {
		t.Error("the server is kept for sessions that cannot reach it")
	}
	q.Dequeue(q.all[1])
	q.Enqueue(&Ticket{Client: 3}, q.Servers()[0])
	if !q.AnyReserved() {
		t.Error("the server is not kept for another session that it has lost")
	}
}

func TestTurnAtTheOperatorsChoice(t *testing.T) {
	q := newQueue(t, targetsAt(a, b))
	q.Enqueue(&Ticket{Client: 1, To: b}, q.Servers()[0])
	q.Ready(q.Servers()[0].queue.tickets[0])
	ticket := q.turn(1, 1)
	q.over(ticket, 1)
	q.Retry(ticket, q.now, false)
	q.now = q.now.Add(time.Second)
	q.turn(1, 0)
}

// TestPickForHeld checks that held sessions use open servers. Otherwise they ask one server after the other, at
// intervals.
func TestPickForHeld(t *testing.T) {
	p := New(targetsAt(a, b), Options{RetryAfter: time.Second, Fall: 1})
	seek := func(at time.Time) string {
		s := p.PickForHeld(at, client)
		if s == nil {
			return ""
		}
		p.Release(s)
		return s.Addr.String()
	}
	servers := p.Servers()
	p.Failed(servers[0], now, now, "refused")
	if got := seek(now); got != b.String() {
		t.Errorf("asked %q, want the open one", got)
	}
	p.Failed(servers[1], now, now, "refused")
	p.Checked(servers[1], now, false, 0, Refused) // down
	at := now.Add(time.Minute)                    // the rests are over
	for i, want := range []string{a.String(), b.String(), ""} {
		if got := seek(at); got != want {
			t.Errorf("ask %d goes to %q, want %q", i, got, want)
		}
	}
	p.Failed(servers[0], at, at, "refused")
	if at = at.Add(askAgain); seek(at) != a.String() || seek(at) != "" {
		t.Error("a server that has refused is not asked again in time")
	}
	if at = at.Add(askEvery); seek(at) == "" {
		t.Error("a silent server is not asked again in time")
	}
	if !p.Answered(servers[1], at) || p.Answered(servers[1], at) || seek(at) != b.String() {
		t.Error("a server that has let a session in is not up")
	}
	if got := status(t, p, at, b); got.State != Up || got.Since != at {
		t.Errorf("status: %+v", got)
	}
}
