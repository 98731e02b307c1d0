package joining

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"tidegate/codec/nethernet"
)

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var wide = Limits{Unfinished: 20_000, Network: 20_000, Sessions: 20_000,
	Patience: DefaultLimits.Patience}

// TestMemoryOfSessions bounds the bytes of an admitted client: its ticket, and its addresses.
func TestMemoryOfSessions(t *testing.T) {
	const sessions, most = 10_000, 520
	k, all := NewTickets(wide, nil), make([]*nethernet.Sources, sessions)
	before := heap()
	for i := range all {
		client := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		ticket, err := k.Ask(start, fmt.Sprintf("%d", i), "arena", client, server)
		if err != nil {
			t.Fatal(err)
		}
		ticket.ServerUfrag, ticket.ClientUfrag = fmt.Sprintf("%016d", i), fmt.Sprintf("%04d", i)
		ticket.ServerPassword = fmt.Sprintf("%032d", i)
		if err := k.Answer(start, ticket); err != nil {
			t.Fatal(err)
		}
		k.Admit(start, ticket, elsewhere, 0)
		all[i] = new(nethernet.Sources)
		for n := range byte(2) {
			at := netip.AddrPortFrom(client, uint16(n)+1)
			if err := all[i].Request(0, at, &nethernet.Binding{ID: nethernet.TransactionID{n + 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	each := (heap() - before) / sessions
	t.Logf("%d bytes a session", each)
	if each > most {
		t.Errorf("%d bytes a session, want at most %d", each, most)
	}
	runtime.KeepAlive(k)
	runtime.KeepAlive(all)
}
