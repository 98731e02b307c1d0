package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/lossylink"
)

func good() Result {
	return Result{
		Pair:       MainPair(),
		Players:    Players{Clients: 4, Connected: 4, Goodbyes: 4, Heard: 4},
		Reliable:   Delivery{Sent: 800, Returned: 800},
		Unreliable: Exchange{Sent: 800, Returned: 721},
		RTT50:      1200 * time.Microsecond, RTT99: 103400 * time.Microsecond,
		Resent: Resent{ByClients: 40, ToClients: 45, ToServer: 1},
		Link:   lossylink.Stats{Carried: 9500, Lost: 500},
	}
}

func TestSummary(t *testing.T) {
	const want = `
messages           sent   returned    missing duplicated
reliable            800        800          0          0
unreliable          800        721
             late or lost ones are dropped by their receiver; no protocol promises them
changed      0 of both kinds
promise      exactly once: each reliable message is answered, once and unchanged
round trip   p50 1.2 ms, p99 103.4 ms, from client to server and back
link         500 of 10000 datagrams lost
resent       40 by clients, 45 to clients, 1 to the server
goodbyes     4 of 4 clients, 4 heard by the proxy

ok: all 800 reliable messages came back exactly once and unchanged
`
	r := good()
	if got := r.Summary(); got != want {
		t.Errorf("summary:\n%s\nwant:\n%s", got, want)
	}
	if !r.OK() {
		t.Error("not OK")
	}
}

func TestEveryFaultFails(t *testing.T) {
	for _, step := range []struct {
		spoil func(*Result)
		want  string
	}{
		{func(r *Result) { r.Connected = 3 }, "1 of 4 clients did not connect"},
		{func(r *Result) { r.Lost, r.LostBy = 2, codec.TimedOut }, "2 clients lost the connection (timed-out)"},
		{func(r *Result) { r.Reliable = Delivery{} }, "nothing was sent"},
		{func(r *Result) { r.Reliable.Missing = 1 }, "1 reliable message missing"},
		{func(r *Result) { r.Reliable.Duplicated = 2 }, "2 reliable messages came back twice"},
		{func(r *Result) { r.Changed = 3 }, "3 messages changed"},
		{func(r *Result) { r.Link, r.Heard = lossylink.Stats{}, 2 }, "2 goodbyes not heard"},
		{func(r *Result) { r.ProxyError = errors.New("gone") }, "the proxy ended with an error: gone"},
	} {
		r := good()
		step.spoil(&r)
		lines := strings.Split(strings.TrimSpace(r.Summary()), "\n")
		if last := lines[len(lines)-1]; r.OK() || last != "FAILED: "+step.want {
			t.Errorf("OK = %v, last line %q; want %q", r.OK(), last, "FAILED: "+step.want)
		}
	}
	// A pair that promises less has a fault if even less arrives.
	for _, step := range []struct {
		to    string
		spoil func(*Result)
		want  string // empty: no fault
	}{
		{"rudp", func(r *Result) { r.Reliable.Duplicated = 2 }, ""},
		{"rudp", func(r *Result) { r.Reliable.Missing = 1 }, "1 reliable message missing"},
		{"rtype", func(r *Result) { r.Reliable = Delivery{} }, ""},
		{"rtype", func(r *Result) { r.Unreliable.Returned = 0 }, "only 0 of 800 messages came back"},
		{"rtype", func(r *Result) { r.Link = lossylink.Stats{} }, "only 721 of 800 messages came back"},
		{"rtype", func(r *Result) { r.Link, r.Unreliable.Returned = lossylink.Stats{}, 801 },
			"801 came back of 800 messages"},
		{"rudp", func(r *Result) { r.Link, r.Reliable.Returned = lossylink.Stats{}, 700 },
			"only 700 of 800 messages came back"},
		{"rudp", func(r *Result) { r.Reliable.Returned = 700 }, ""},
		{"rtype", func(r *Result) { r.Changed = 1 }, "1 message changed"},
	} {
		r := good()
		var err error
		if r.Pair, err = NewPair("riptide-2.2", step.to); err != nil {
			t.Fatal(err)
		}
		step.spoil(&r)
		if got := strings.Join(r.faults(), "; "); got != step.want {
			t.Errorf("to %s: faults %q, want %q", step.to, got, step.want)
		}
	}
}

// TestLostGoodbyeIsExplained: a goodbye that the link lost is no fault, and the summary says so.
func TestLostGoodbyeIsExplained(t *testing.T) {
	r := good()
	r.Heard = 3
	if got := r.Summary(); !r.OK() || !strings.Contains(got, "the link may lose it") {
		t.Error(got)
	}
}

// TestMissingUnreliableMessagesAreExplained: a reader of the summary must not take them for a fault of the proxy.
func TestMissingUnreliableMessagesAreExplained(t *testing.T) {
	const why = "no protocol promises them"
	for returned, want := range map[uint64]bool{800: true, 801: false} {
		r := Result{Pair: MainPair(), Unreliable: Exchange{Sent: 801, Returned: returned}}
		if got := strings.Contains(r.Summary(), why); got != want {
			t.Errorf("%d of 801 returned: explained %v", returned, got)
		}
	}
}
