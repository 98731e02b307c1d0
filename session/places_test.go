package session

import (
	"errors"
	"testing"
)

// TestPlacesOfOneSource checks the limits of an address and a network, over the Tables of two loops. Established
// sessions count too.
func TestPlacesOfOneSource(t *testing.T) {
	shared := NewPlaces()
	var tables [2]*Table[int]
	for i := range tables {
		tables[i] = NewTable[int](Limits{Sessions: 100, HalfOpen: 100, Address: 3, Network: 5}, epoch)
		tables[i].Share(shared)
	}
	var all []*Entry[int]
	for i, c := range []struct {
		client string
		want   error
	}{
		{"192.0.2.1", nil},
		{"192.0.2.1", nil},
		{"::ffff:192.0.2.1", nil},
		{"192.0.2.1", ErrAddressFull},
		{"192.0.2.2", nil},
		{"192.0.2.3", nil},
		{"192.0.2.4", ErrNetworkFull},
		{"198.51.100.1", nil},
		{"2001:db8:1:1::1", nil},
		{"2001:db8:1:1::2", nil},
		{"2001:db8:1:1::3", nil},
		{"2001:db8:1:1::4", ErrAddressFull},
		{"2001:db8:1:2::1", nil},
		{"2001:db8:1:2::2", nil},
		{"2001:db8:1:3::1", ErrNetworkFull},
		{"2001:db8:2:1::1", nil},
	} {
		table, k := tables[i%2], from(c.client, uint16(1+i))
		if err := table.Room(k.Client.Addr()); !errors.Is(err, c.want) {
			t.Fatalf("%d, %s: Room is %v, want %v", i, c.client, err, c.want)
		}
		e, err := table.Add(k, i)
		if !errors.Is(err, c.want) {
			t.Fatalf("%d, %s: Add is %v, want %v", i, c.client, err, c.want)
		}
		if err == nil {
			table.Establish(e)
			all = append(all, e)
		}
	}
	for _, e := range all {
		for _, table := range tables {
			if table.Get(e.Key) == e {
				table.Remove(e)
			}
		}
	}
	for i := range shared.shards {
		if s := &shared.shards[i]; len(s.addresses)+len(s.networks) != 0 {
			t.Errorf("a shard without sessions counts %v and %v", s.addresses, s.networks)
		}
	}
}
