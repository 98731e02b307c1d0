package joining

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testkit/allocs"
)

var (
	start     = time.Unix(1_800_000_000, 0)
	server    = netip.MustParseAddrPort("192.0.2.2:19132")
	target    = netip.MustParseAddrPort("192.0.2.2:50001")
	player    = netip.MustParseAddr("198.51.100.7")
	elsewhere = netip.MustParseAddrPort("198.51.100.9:4000") // another address than over HTTP
)

// answered puts a join into a table.
func answered(t *testing.T, k *Tickets, client netip.Addr, name string) *Ticket {
	t.Helper()
	ticket, err := k.Ask(start, "1", "arena", client, server)
	if err != nil {
		t.Fatal(err)
	}
	ticket.ServerUfrag, ticket.ServerPassword, ticket.ClientUfrag, ticket.Target = "srv"+name, "pwd", "cli"+name, target
	if err := k.Answer(start, ticket); err != nil {
		t.Fatal(err)
	}
	return ticket
}

// TestTicketsLife plays a join from the question to the end of its session.
func TestTicketsLife(t *testing.T) {
	var over []Join
	k := NewTickets(DefaultLimits, func(j Join) { over = append(over, j) })
	if k.Find(start, []byte("srv1:cli1")) != nil {
		t.Error("found before it was asked")
	}
	ticket := answered(t, k, player, "1")
	at := start.Add(time.Second)
	if k.Find(at, []byte("srv1:cli1")) != ticket || k.Find(at, []byte("srv1:cli2")) != nil || k.Find(at, nil) != nil {
		t.Error("found by another name")
	}
	if owner, ok := k.Admit(at, ticket, elsewhere, 3); owner != 3 || !ok {
		t.Error(owner, ok)
	}
	if owner, ok := k.Admit(at, ticket, netip.MustParseAddrPort("[2001:db8::1]:1"), 5); owner != 3 || !ok {
		t.Errorf("the second address belongs to loop %d, %v", owner, ok)
	}
	late := start.Add(24 * time.Hour)
	k.Expire(late)
	k.End(late, ticket, NeverCame, "") // as an Expire that began before the player came
	if k.Find(late, []byte("srv1:cli1")) != ticket {
		t.Error("a session's name is not found after a day")
	}
	if joins := k.Joins(elsewhere.Addr()); len(joins) != 1 || joins[0].Stage != Admitted || joins[0].From != elsewhere {
		t.Errorf("%+v", joins)
	}
	k.End(late, ticket, Ended, "gone")
	k.End(late, ticket, Ended, "twice")
	if k.Find(late, []byte("srv1:cli1")) != nil {
		t.Error("found after its end")
	}
	if _, ok := k.Admit(late, ticket, elsewhere, 3); ok {
		t.Error("admitted after its end")
	}
	if u, s := k.Sizes(); u != 0 || s != 0 || len(k.networks) != 0 {
		t.Errorf("%d unfinished, %d sessions, %d networks are left", u, s, len(k.networks))
	}
	if len(over) != 1 || over[0].Stage != Ended || over[0].Reason != "gone" || over[0].Target != target {
		t.Errorf("%+v", over)
	}
}

// TestPlayersWhoNeverCome lets joins expire. Their places and networks are free again.
func TestPlayersWhoNeverCome(t *testing.T) {
	var over []Join
	k := NewTickets(DefaultLimits, func(j Join) { over = append(over, j) })
	ticket := answered(t, k, player, "1")
	before, at := start.Add(DefaultLimits.Patience-1), start.Add(DefaultLimits.Patience)
	k.Expire(before)
	if k.Find(before, []byte("srv1:cli1")) != ticket || k.Find(at, []byte("srv1:cli1")) != nil {
		t.Error("found for too long, or too short")
	}
	if _, ok := k.Admit(at, ticket, elsewhere, 0); ok {
		t.Error("admitted too late")
	}
	k.Expire(at)
	if u, s := k.Sizes(); u+s != 0 || len(over) != 1 || over[0].Stage != NeverCame {
		t.Errorf("%d, %d, %+v", u, s, over)
	}
	answered(t, k, player, "1") // the same names again
	if text := over[0].String(); !strings.Contains(text, "within 30s") {
		t.Error(text)
	}
}

// TestTicketsAreBounded reaches each bound.
func TestTicketsAreBounded(t *testing.T) {
	limits := Limits{Unfinished: 5, Network: 2, Sessions: 3, Patience: time.Second}
	k := NewTickets(limits, nil)
	var waiting []*Ticket
	ask := func(client string, want error) {
		t.Helper()
		ticket, err := k.Ask(start, "1", "arena", netip.MustParseAddr(client), server)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", client, err, want)
		}
		if err == nil {
			n := fmt.Sprint(len(waiting))
			ticket.ServerUfrag, ticket.ClientUfrag = "srv"+n, "cli"+n
			waiting = append(waiting, ticket)
		}
	}
	ask("198.51.100.1", nil)
	ask("198.51.100.2", nil)
	ask("198.51.100.3", ErrNetwork)
	ask("2001:db8:1::1", nil)
	ask("2001:db8:1:2::1", nil)
	ask("2001:db8:1:3::1", ErrNetwork)
	ask("203.0.113.1", nil)
	ask("192.0.2.1", ErrFull)
	for _, ticket := range waiting[:3] {
		if err := k.Answer(start, ticket); err != nil {
			t.Fatal(err)
		}
		if _, ok := k.Admit(start, ticket, elsewhere, 0); !ok {
			t.Fatal("not admitted")
		}
	}
	ask("192.0.2.1", ErrFull) // of sessions
	k.End(start, waiting[0], Ended, "")
	ask("198.51.100.3", nil) // its network has room again
	k.End(start, waiting[3], Failed, "")
	k.End(start, waiting[3], Refused, "twice")
	ask("2001:db8:1:3::1", nil)
	if u, s := k.Sizes(); u != 3 || s != 2 {
		t.Errorf("%d unfinished, %d sessions", u, s)
	}
	for range 3 * maxHistory {
		ticket, err := k.Ask(start, "1", "arena", player, server)
		if err != nil {
			t.Fatal(err)
		}
		k.End(start, ticket, Failed, "again")
	}
	if n := len(k.Joins(player)); n != maxHistory || len(k.recent.joins) != maxHistory {
		t.Errorf("%d joins are remembered", n)
	}
}

// TestLiveNamesAreNotTaken lets a second server choose the names of a session.
func TestLiveNamesAreNotTaken(t *testing.T) {
	k := NewTickets(DefaultLimits, nil)
	first := answered(t, k, player, "1")
	second, err := k.Ask(start, "2", "arena", player, server)
	if err != nil {
		t.Fatal(err)
	}
	second.ServerUfrag, second.ClientUfrag = "srv1", "cli1"
	if err := k.Answer(start, second); !errors.Is(err, ErrConflict) || k.Find(start, []byte("srv1:cli1")) != first {
		t.Error(err)
	}
	k.End(start, second, Ended, "") // changes nothing
	if u, s := k.Sizes(); u != 1 || s != 0 {
		t.Errorf("%d unfinished, %d sessions", u, s)
	}
}

// TestUnansweredPlaces ends joins without an answer, which give back their places.
func TestUnansweredPlaces(t *testing.T) {
	k := NewTickets(DefaultLimits, nil)
	answered(t, k, player, "1")
	held := 2
	for range held {
		ticket, err := k.Ask(start, "2", "arena", player, server)
		if err != nil {
			t.Fatal(err)
		}
		k.Place(ticket, server, func() { held-- })
		ticket.ServerUfrag, ticket.ClientUfrag = "srv1", "cli1"
		if err := k.Answer(start, ticket); !errors.Is(err, ErrConflict) {
			t.Error(err)
		}
		k.End(start, ticket, Refused, "37")
	}
	if held != 0 {
		t.Errorf("%d places are held", held)
	}
}

// TestHistory tells the newest joins of an address first.
func TestHistory(t *testing.T) {
	var h history
	for i := range maxHistory + 10 {
		h.add(Join{ID: fmt.Sprint(i), Client: player})
	}
	joins := h.appendOf(nil, player)
	if len(joins) != maxHistory || joins[0].ID != fmt.Sprint(maxHistory+9) || joins[maxHistory-1].ID != "10" {
		t.Errorf("%d joins, from %s to %s", len(joins), joins[0].ID, joins[len(joins)-1].ID)
	}
	if joins := h.appendOf(nil, elsewhere.Addr()); len(joins) != 0 {
		t.Error("joins of another address", joins)
	}
}

// TestSentences says how far a join came.
func TestSentences(t *testing.T) {
	j := Join{Client: player, Server: server, Target: target, From: elsewhere, Reason: "code 37", Answered: start,
		Admitted: start.Add(120 * time.Millisecond), Over: start.Add(time.Minute)}
	for stage, want := range map[Stage]string{
		Asked:    "198.51.100.7 asked 192.0.2.2:19132, which has not answered yet",
		Answered: "198.51.100.7 got the answer of 192.0.2.2:19132, and has sent no valid datagram yet",
		Admitted: "198.51.100.7 came from 198.51.100.9:4000, 120ms after the answer of 192.0.2.2:19132",
		Refused:  "192.0.2.2:19132 refused 198.51.100.7: code 37",
		Failed:   "the join of 198.51.100.7 at 192.0.2.2:19132 failed: code 37",
		NeverCame: "198.51.100.7 got the answer of 192.0.2.2:19132, and no valid datagram came within 1m0s: " +
			"the candidates may be wrong, or a firewall drops UDP",
		Malformed: "the offer of 198.51.100.7 cannot be used",
		Ended:     "198.51.100.9:4000 left after 59.88s: code 37",
	} {
		j.Stage = stage
		if got := j.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestFindDoesNotAllocate looks names up as a loop does, known ones and unknown ones.
func TestFindDoesNotAllocate(t *testing.T) {
	k := NewTickets(DefaultLimits, nil)
	ticket := answered(t, k, player, "1")
	known, unknown := []byte("srv1:cli1"), []byte("srv1:unheard")
	if n := allocs.PerRun(100, func() {
		if k.Find(start, known) != ticket || k.Find(start, unknown) != nil {
			t.Fatal("found another one")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := allocs.PerRun(100, func() { k.Admit(start, ticket, elsewhere, 0) }); n != 0 {
		t.Errorf("%v allocations to admit", n)
	}
}

// TestTicketsTogether has loops and HTTP requests use one table. Run it with the race detector.
func TestTicketsTogether(t *testing.T) {
	k := NewTickets(DefaultLimits, func(Join) {})
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				ticket, err := k.Ask(start, "1", "arena", netip.AddrFrom4([4]byte{10, byte(g), byte(i), 1}), server)
				if err != nil {
					t.Error(err)
					return
				}
				ticket.ServerUfrag, ticket.ClientUfrag = fmt.Sprint(g), fmt.Sprint(i)
				if err := k.Answer(start, ticket); err != nil {
					t.Error(err)
				}
				if found := k.Find(start, []byte(fmt.Sprintf("%d:%d", g, i))); found == nil {
					t.Error("not found")
				} else if i%2 == 0 {
					k.Admit(start, found, elsewhere, g)
				}
				k.Joins(player)
				k.End(start, ticket, Ended, "")
				k.Expire(start)
			}
		})
	}
	all.Wait()
	if u, s := k.Sizes(); u+s != 0 {
		t.Errorf("%d unfinished, %d sessions are left", u, s)
	}
}

func BenchmarkFind(b *testing.B) {
	k := NewTickets(DefaultLimits, nil)
	name := []byte("sUnfGQbdnziZHIwA:QOiSCPFacltNuRqY")
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			k.Find(start, name)
		}
	})
}

// TestCounts counts each join at each stage, also after another process has taken over.
func TestCounts(t *testing.T) {
	k := NewTickets(DefaultLimits, nil)
	for stage, n := range map[Stage]int{Ended: 1, Lost: 2} {
		for i := range n {
			ticket := answered(t, k, player, fmt.Sprint(stage, i))
			k.Admit(start, ticket, elsewhere, 0)
			k.End(start, ticket, stage, "")
		}
	}
	for range 3 {
		ticket, _ := k.Ask(start, "1", "arena", player, server)
		k.End(start, ticket, Refused, "code 37")
		ticket, _ = k.Ask(start, "1", "arena", player, server)
		k.End(start, ticket, Failed, "no answer")
		k.Count(Limited)
	}
	answered(t, k, player, "late")
	k.Expire(start.Add(time.Hour))
	k.Count(Asked)
	bad, _ := k.Ask(start, "1", "arena", player, server)
	k.End(start, bad, Malformed, "")
	want := Counts{
		Asked: 1, Answered: 4, Admitted: 3, Refused: 3, Failed: 3, NeverCame: 1, Ended: 1, Lost: 2, Limited: 3, Malformed: 1,
	}
	if got := k.Counts(); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	next := NewTickets(DefaultLimits, nil)
	next.Inherit(append(want[:], 7)) // of a later release
	next.Inherit([]uint64{1})        // of an earlier one
	if want[Asked]++; next.Counts() != want {
		t.Errorf("%v, want %v", next.Counts(), want)
	}
	for s := range stages {
		if s.Name() == "" {
			t.Errorf("stage %d has no name", s)
		}
	}
}
