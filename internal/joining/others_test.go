package joining

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestHeir lets the answers of a handover wait, and gives later ones to the successor. After a handover that
// has failed they stay.
func TestHeir(t *testing.T) {
	for _, fails := range []bool{false, true} {
		k := NewTickets(DefaultLimits, nil)
		answered(t, k, player, "before")
		late, err := k.Ask(start, "late", "arena", player, server)
		if err != nil {
			t.Fatal(err)
		}
		late.ServerUfrag, late.ServerPassword, late.ClientUfrag, late.Target = "srv", "pwd", "cli", target
		k.Hold()
		got, given := make(chan error, 1), []string(nil)
		go func() { got <- k.Answer(start, late) }()
		if saved := k.Save(start); len(saved) != 1 {
			t.Errorf("%d joins were handed over", len(saved))
		}
		if len(got) != 0 {
			t.Error("an answer has not waited")
		}
		heir := func(v *SavedTicket) error { given = append(given, v.ID+" "+v.ServerPassword); return nil }
		if fails {
			heir = nil
		}
		k.Release(heir)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if waits := k.Find(start, []byte("srv:cli")) != nil; waits != fails || fails != (given == nil) {
			t.Errorf("fails %v: it waits %v, given %v", fails, waits, given)
		}
		if u, _ := k.Sizes(); u != map[bool]int{false: 1, true: 2}[fails] {
			t.Errorf("fails %v: %d wait", fails, u)
		}
	}
	k, gone := NewTickets(DefaultLimits, nil), errors.New("gone")
	k.Hold()
	k.Release(func(*SavedTicket) error { return gone })
	one, err := k.Ask(start, "1", "arena", player, server)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Answer(start, one); !errors.Is(err, gone) || len(k.unfinished)+len(k.networks) != 0 {
		t.Errorf("%v; %d joins are left", err, len(k.unfinished))
	}
}

// TestPlaces ends joins in each way. Each gives back its place at its server once.
func TestPlaces(t *testing.T) {
	for name, ends := range map[string]func(k *Tickets, t *Ticket){
		"failed":    func(k *Tickets, t *Ticket) { k.End(start, t, Failed, "") },
		"late":      func(k *Tickets, _ *Ticket) { k.Expire(start.Add(DefaultLimits.Patience)) },
		"withdrawn": func(k *Tickets, t *Ticket) { k.Withdraw(t) },
		"turned away": func(k *Tickets, t *Ticket) {
			k.Admit(start, t, elsewhere, 0)
			k.End(start, t, Failed, "")
		},
		"seated": func(k *Tickets, t *Ticket) {
			k.Admit(start, t, elsewhere, 0)
			k.Seated(t)
		},
		"came elsewhere": func(k *Tickets, _ *Ticket) {
			k.Lend(start, &SavedTicket{ServerUfrag: "srv1", ClientUfrag: "cli1"}, true)
		},
	} {
		freed := 0
		free := func() { freed++ }
		k := NewTickets(DefaultLimits, nil)
		ticket := answered(t, k, player, "1")
		k.Place(ticket, server, free)
		if freed != 0 {
			t.Errorf("%s: free before its end", name)
		}
		ends(k, ticket)
		k.End(start, ticket, Ended, "")
		if freed != 1 || len(k.places) != 0 {
			t.Errorf("%s: %d places came back, %d are held", name, freed, len(k.places))
		}
	}
}

// TestLend has a join come to another node than the one that has answered. Joins of others take no place, and end
// without a word.
func TestLend(t *testing.T) {
	var over []Join
	table := func() *Tickets { return NewTickets(DefaultLimits, func(j Join) { over = append(over, j) }) }
	asked, other, third := table(), table(), table()
	wire := func(from *Tickets, to ...*Tickets) {
		from.ShareWith(func(v *SavedTicket, came bool) {
			for _, one := range to {
				one.Lend(start, v, came)
			}
		})
	}
	wire(asked, other, third)
	wire(other, asked, third)
	answered(t, asked, player, "1")
	answered(t, asked, player, "2")
	if saved := other.Save(start); len(saved) != 0 {
		t.Errorf("the successor of another node gets %v", saved)
	}
	name := []byte("srv1:cli1")
	lent := other.Find(start, name)
	if lent == nil || third.Find(start, name) == nil || len(other.networks) != 0 {
		t.Fatal("other nodes do not know the join")
	}
	if _, ok := other.Admit(start, lent, elsewhere, 0); !ok {
		t.Fatal("the player was not admitted")
	}
	other.Admit(start, lent, elsewhere, 0) // again, which is no news
	if asked.Find(start, name) != nil || third.Find(start, name) != nil || other.Find(start, name) != lent {
		t.Error("the join is not at the node of its player alone")
	}
	if joins := other.Joins(player); len(joins) != 2 || joins[0].Stage+joins[1].Stage != Answered+Admitted {
		t.Errorf("%v", joins)
	}
	asked.Lend(start, &SavedTicket{ServerUfrag: "srv1", ClientUfrag: "cli1"}, true) // too late
	other.Lend(start, &SavedTicket{ServerUfrag: "srv1", ClientUfrag: "cli1"}, true) // its player plays here
	if u, n := other.Sizes(); u != 1 || n != 1 {
		t.Errorf("%d wait and %d play", u, n)
	}
	late := start.Add(DefaultLimits.Patience)
	for _, k := range []*Tickets{asked, other, third} {
		k.Expire(late)
		if u, _ := k.Sizes(); u != 0 || k.borrowed != 0 || len(k.networks) != 0 {
			t.Errorf("%d wait, %d of others", u, k.borrowed)
		}
	}
	if len(over) != 1 || over[0].Stage != NeverCame {
		t.Errorf("%v", over)
	}
	other.End(late.Add(time.Second), lent, Ended, "")
	if _, n := other.Sizes(); n != 0 || len(over) != 2 {
		t.Errorf("%d play, %v", n, over)
	}
	for i := range maxBorrowed + 10 {
		v := SavedTicket{Client: player, Target: target, ServerUfrag: fmt.Sprint(i), ServerPassword: "p", ClientUfrag: "c"}
		other.Lend(late, &v, false)
	}
	if other.borrowed != maxBorrowed {
		t.Errorf("%d joins of others", other.borrowed)
	}
	answered(t, other, player, "own") // finds room
	before := SavedTicket{Client: player, Target: target, ServerUfrag: "b", ServerPassword: "p", ClientUfrag: "c"}
	if n := other.Restore(late, []SavedTicket{before}); n != 0 {
		t.Errorf("%d joins of the process before found no room", n)
	}
}
