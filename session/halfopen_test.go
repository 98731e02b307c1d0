package session

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/source"
)

func from(address string, port uint16) Key {
	return Key{Client: netip.AddrPortFrom(netip.MustParseAddr(address), port)}
}

func TestHalfOpenOfOneSource(t *testing.T) {
	table := NewTable[int](Limits{
		Sessions: 100, HalfOpen: 7, HalfOpenAddress: 2, HalfOpenNetwork: 3,
	}, epoch)
	for i, c := range []struct {
		client string
		want   error
	}{
		{"192.0.2.1", nil},
		{"::ffff:192.0.2.1", nil},
		{"192.0.2.1", ErrAddress},
		{"192.0.2.2", nil},
		{"192.0.2.3", ErrNetwork},
		{"198.51.100.1", nil},
		{"2001:db8::1", nil},
		{"2001:db8::1:1", nil},
		{"2001:db8::2:1", ErrAddress},
		{"2001:db8:0:1::1", nil},
		{"2001:db8:0:ffff::1", ErrNetwork},
		{"2001:db8:1::1", ErrHalfOpen},
	} {
		if _, err := table.Add(from(c.client, uint16(1+i)), i); !errors.Is(err, c.want) {
			t.Fatalf("%d, %s: %v, want %v", i, c.client, err, c.want)
		}
	}
	table.Establish(table.Get(from("192.0.2.1", 1)))
	if _, err := table.Add(from("192.0.2.3", 99), 0); err != nil {
		t.Errorf("after one of its network was established: %v", err)
	}
}

// TestEldest checks that proved and unproved sessions wait in separate queues.
func TestEldest(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 10, HalfOpen: 10}, epoch)
	for i := range 4 {
		table.Add(key(i), i)
	}
	expect := func(what string, unproved, proved int) {
		t.Helper()
		for _, c := range []struct {
			proved bool
			want   int
		}{{false, unproved}, {true, proved}} {
			got := -1
			if e := table.Eldest(c.proved); e != nil {
				got = e.Value
			}
			if got != c.want {
				t.Fatalf("%s: the eldest with proof %v is %d, want %d", what, c.proved, got, c.want)
			}
		}
	}
	expect("nobody proved", 0, -1)
	table.Prove(table.Get(key(1)))
	table.Prove(table.Get(key(0)))
	table.Prove(table.Get(key(0)))
	expect("two proved", 2, 1)
	table.Remove(table.Get(key(1)))
	table.Establish(table.Get(key(2)))
	expect("one of each gone", 3, 0)
	table.Establish(table.Get(key(0)))
	table.Prove(table.Get(key(0)))
	table.Remove(table.Get(key(3)))
	expect("none left", -1, -1)
}

// TestHalfOpenForgets checks that no count is left behind after many random changes.
func TestHalfOpenForgets(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 50, HalfOpen: 50, HalfOpenAddress: 5}, epoch)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		k := from("192.0.2.1", 1)
		ip := [4]byte{10, 0, byte(rng.IntN(8)), byte(rng.IntN(4))}
		k.Client = netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(1+rng.IntN(10)))
		e := table.Get(k)
		switch {
		case e == nil:
			table.Add(k, 0)
		case rng.IntN(3) == 0:
			table.Prove(e)
		case rng.IntN(2) == 0:
			table.Establish(e)
		default:
			table.Remove(e)
		}
	}
	if n := len(table.halfOpen.addresses); n > 32 {
		t.Errorf("%d addresses are counted, of 32", n)
	}
	for e := range table.All {
		table.Remove(e)
	}
	h := &table.halfOpen
	if h.count != 0 || len(h.addresses) != 0 || len(h.networks) != 0 || h.proved.First != nil || h.unproved.Last != nil {
		t.Errorf("an empty table remembers %+v", h)
	}
}

// TestSpareSessions asserts that an address's oldest offered session is found, and that leaving sessions leave no more
// entries than the bound of the address.
func TestSpareSessions(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 100, HalfOpen: 100, HalfOpenAddress: 4}, time.Now())
	client := netip.MustParseAddr("192.0.2.1")
	var open []*Entry[int]
	for i := range 2000 {
		e, err := table.Add(Key{Client: netip.AddrPortFrom(client, uint16(1000+i))}, i)
		if err != nil {
			t.Fatal(err)
		}
		table.Offer(e)
		table.Offer(e)
		if open = append(open, e); len(open) < 4 {
			continue
		}
		if i%3 > 0 {
			table.Establish(open[0])
		} else if got := table.Spare(client); got != open[0] {
			t.Fatalf("session %d: the oldest spare session is %v, want %v", i, got, open[0])
		}
		table.Remove(open[0])
		open = open[1:]
		if n := len(table.halfOpen.addresses[source.Of(client).Address()].spare); n > 12 {
			t.Fatalf("%d entries for 3 sessions", n)
		}
	}
	for _, e := range open {
		table.Prove(e)
	}
	if e := table.Spare(client); e != nil || len(table.halfOpen.addresses) > 0 || table.HalfOpen() != 3 {
		t.Errorf("proved sessions count at their address: %v", e)
	}
}
