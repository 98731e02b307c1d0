package signalling

import (
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
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

var wide = Limits{Unfinished: 20_000, Network: 20_000, Sessions: 20_000, Networks: DefaultLimits.Networks,
	Patience: DefaultLimits.Patience}

// TestMemoryOfSessions bounds the bytes of an admitted client: its ticket, and its addresses.
func TestMemoryOfSessions(t *testing.T) {
	const sessions, most = 10_000, 900
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
		k.Admit(start, ticket, source, 0)
		all[i] = new(nethernet.Sources)
		for n := range byte(2) {
			at := netip.AddrPortFrom(client, uint16(n)+1)
			if err := all[i].Request(start, at, &nethernet.Binding{ID: nethernet.TransactionID{n + 1}}); err != nil {
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

// TestTicketsKeepNoDescription joins with the largest descriptions. What a ticket keeps must not hold them.
func TestTicketsKeepNoDescription(t *testing.T) {
	const joins = 200
	w := serve(t, func(o *Options) { o.Tickets = NewTickets(wide, nil) })
	filler := strings.Repeat("a=x:"+strings.Repeat("y", 94)+"\r\n", maxBody/100-50)
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, n int) {
		fmt.Fprintf(to, answerText+"%s", "127.0.0.1", n, filler)
	})
	c := w.dial()
	join := func(n int) {
		id := strings.Repeat("1", 1000)
		if got := c.send(post("/v1/join/"+id, offerOf(n)+filler)); got.status != http.StatusOK {
			t.Fatal(got.status)
		}
		<-w.bds.asked
	}
	join(0)
	before := heap()
	for i := range joins {
		join(i + 1)
	}
	if each := (heap() - before) / joins; each > 8<<10 {
		t.Errorf("%d bytes a join are held, of descriptions of %d", each, len(filler))
	}
}
