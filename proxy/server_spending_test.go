package proxy

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/ratelimit"
)

// TestSpendingOfLoops adds up the use of one address at two loops, each with half of the rate, and charges both. A loop
// begins to note use with the first call.
func TestSpendingOfLoops(t *testing.T) {
	f := newGuardFleet(t, 2, false)
	s, stop := new(Server), make(chan struct{})
	defer close(stop)
	for _, r := range f.nodes {
		l := newLoop(r, wakeless{}, nil)
		s.loops = append(s.loops, l)
		go func() {
			for {
				select {
				case c := <-l.mailbox:
					c.do(l.relay, f.now)
				case <-stop:
					return
				}
			}
		}()
	}
	from := netip.MustParseAddr("192.0.2.1")
	take := func() []ratelimit.Spending {
		all, err := s.TakeSpending(t.Context(), 1, f.peers)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	f.asks(0, 3, from)
	if all := take(); len(all) != 0 {
		t.Errorf("noted before the limits were shared: %v", all)
	}
	f.asks(0, 20, from) // of 10 a second for a loop, so 20 for both
	f.asks(1, 10, from)
	all := take()
	address := ratelimit.Account{Source: netip.PrefixFrom(from, 32), Of: ratelimit.Handshakes, Per: ratelimit.PerAddress}
	if len(all) != 1 || all[0] != (ratelimit.Spending{Account: address, Used: 1500 * time.Millisecond}) {
		t.Errorf("%v, want one and a half seconds", all)
	}
	if all := take(); len(all) != 0 {
		t.Errorf("told twice: %v", all)
	}
	s.ChargeSpending([]ratelimit.Spending{{Account: address, Used: time.Second}}, f.peers)
	take() // the loops have charged it now
	for i, left := range []int{40 - 23 - 10, 40 - 10 - 10} {
		if n := f.asks(i, 40, from); n != left {
			t.Errorf("loop %d passes %d, want %d", i, n, left)
		}
	}
}
