package joining

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"tidegate/internal/record"
)

// saved is the record that holds tickets in this test.
type saved struct {
	Tickets []SavedTicket `cbor:"1,keyasint"`
}

// TestSavedTickets gives the joins of one process to another, which goes on with them.
func TestSavedTickets(t *testing.T) {
	old := NewTickets(DefaultLimits, nil)
	waiting, playing := answered(t, old, player, "1"), answered(t, old, player, "2")
	old.Admit(start, playing, elsewhere, 3)
	if _, err := old.Ask(start, "3", "arena", player, server); err != nil {
		t.Fatal(err)
	}
	var read saved
	at := start.Add(time.Second)
	all := append(old.Save(at), old.SaveOne(at, playing))
	if err := record.Read(record.Append(nil, &saved{all}), &read); err != nil {
		t.Fatal(err)
	}
	var over []Join
	k := NewTickets(DefaultLimits, func(j Join) { over = append(over, j) })
	later := start.Add(time.Hour) // the other process's clock
	if lost := k.Restore(later, read.Tickets); lost != 0 {
		t.Errorf("%d are lost", lost)
	}
	if u, s := k.Sizes(); u != 1 || s != 1 || len(k.networks) != 1 {
		t.Errorf("%d wait, %d play", u, s)
	}
	one, two := k.Find(later, []byte("srv1:cli1")), k.Find(later, []byte("srv2:cli2"))
	if one == nil || two == nil || one.Told() != waiting.Told() || one.Told().Target != target {
		t.Fatal(one, two)
	}
	if owner, ok := k.Admit(later, two, elsewhere, 5); owner != 3 || !ok {
		t.Error(owner, ok)
	}
	k.Expire(later.Add(DefaultLimits.Patience - 1100*time.Millisecond))
	if len(over) != 0 {
		t.Errorf("%+v", over)
	}
	k.Expire(later.Add(DefaultLimits.Patience - time.Second))
	if len(over) != 1 || over[0].Stage != NeverCame || over[0].ID != "1" {
		t.Errorf("%+v", over)
	}
	if joins := k.Joins(elsewhere.Addr()); len(joins) != 1 || joins[0].Stage != Admitted {
		t.Errorf("%+v", joins)
	}
	if lost := k.Restore(later, read.Tickets); lost != 1 { // the one that plays is there
		t.Errorf("%d are lost", lost)
	}
}

// TestDamagedTickets empties each field by itself. A ticket without a field that it needs is lost, and none panics.
func TestDamagedTickets(t *testing.T) {
	old := NewTickets(DefaultLimits, nil)
	answered(t, old, player, "1")
	whole := old.Save(start)[0]
	needed := map[string]bool{
		"Client": true, "Target": true, "ServerUfrag": true, "ServerPassword": true, "ClientUfrag": true,
	}
	for i := range reflect.TypeFor[SavedTicket]().NumField() {
		name := reflect.TypeFor[SavedTicket]().Field(i).Name
		damaged := whole
		reflect.ValueOf(&damaged).Elem().Field(i).SetZero()
		k := NewTickets(DefaultLimits, nil)
		if lost := k.Restore(start, []SavedTicket{damaged}); (lost == 1) != needed[name] {
			t.Errorf("without %s, %d are lost", name, lost)
		}
	}
	many := make([]SavedTicket, 1000)
	for i := range many {
		many[i] = whole
		many[i].ClientUfrag += string(rune('a' + i))
		many[i].Client = netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
	}
	k := NewTickets(DefaultLimits, nil)
	if lost := k.Restore(start, many); lost != len(many)-DefaultLimits.Unfinished {
		t.Errorf("%d are lost", lost)
	}
}

// TestRecordWithoutTime restores a join that names no time, as a hostile record may: the table's time has begun then.
func TestRecordWithoutTime(t *testing.T) {
	k := NewTickets(wide, func(Join) {})
	server := netip.MustParseAddrPort("192.0.2.9:1")
	v := SavedTicket{Client: server.Addr(), Server: server, Target: server, ServerUfrag: "a", ClientUfrag: "b"}
	v.ServerPassword, v.ID, v.Route = "p", "1", "r"
	now := time.Now()
	if lost := k.Restore(now, []SavedTicket{v}); lost != 0 || !k.start.Equal(now) {
		t.Errorf("%d joins are lost, the table's time begins at %v, want %v", lost, k.start, now)
	}
}
