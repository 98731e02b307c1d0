package relay

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/riptide"
	"tidegate/proxy/stats"
	"tidegate/session"
)

func TestKickByAnOperator(t *testing.T) {
	w := riptideWorld(t, nil)
	kicked, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	relay := w.proxy.relay
	first := list(relay, w.Now(), ListSessions{Limit: 1})[0]
	if err := kick(relay, w.Now(), first.ID, "afk"); err != nil {
		t.Fatal(err)
	}
	if err := kick(relay, w.Now(), first.ID, "afk"); !errors.Is(err, ErrEnding) {
		t.Errorf("kicked again: %v", err)
	}
	w.await("kicked", believed, kicked.gone)
	end := kicked.find(codec.Disconnected)
	text := riptide.NewReader(riptide.V22, end.Payload, end.Pad)
	if got := string(text.AppendString(nil)); end.Reason != codec.Kicked || got != "afk" {
		t.Errorf("told %v and %q", end.Reason, got)
	}
	w.await("told", believed, w.servers[0].peers[0].gone)
	w.Run(10 * time.Second)
	if other.gone() {
		t.Error("the other player was thrown out too")
	}
	if err := kick(relay, w.Now(), first.ID, ""); !errors.Is(err, ErrNoSession) {
		t.Errorf("kicked after its end: %v", err)
	}
	if got := w.tally().Ended[stats.ByProxy][codec.Kicked]; got != 1 {
		t.Errorf("%d counted as kicked", got)
	}
}

// TestKickInEveryProtocol asserts that a kick works in every protocol, though only Riptide carries its text.
func TestKickInEveryProtocol(t *testing.T) {
	for _, protocol := range []codec.Protocol{riptide22(), raknet6()} {
		w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, protocol, defaultRoute(raknet6()))
		p := w.connect(codec.Hello{})
		w.await("established", time.Second, func() bool { return w.tally().Established == 1 })
		if err := kick(w.proxy.relay, w.Now(), 1, "away"); err != nil {
			t.Fatal(err)
		}
		w.await("told", 5*time.Second, p.gone)
	}
}

func TestKickOfARelayedSession(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(0, 0, serverAddr)
	p.meet(1, 1, secondAddr)
	if err := kick(p.relay, p.now, 1, "away"); err != nil || p.relay.table.Len() != 1 {
		t.Errorf("%v, %d sessions left", err, p.relay.table.Len())
	}
	left := list(p.relay, p.now, ListSessions{Limit: 2})
	if len(left) != 1 || left[0].ID != 2 || !left[0].Relayed || left[0].Client != playerAddr(1) {
		t.Errorf("left is %v", left)
	}
}

func TestPagesOfSessions(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	for i := range 10 {
		p.meet(i, i, [...]netip.AddrPort{serverAddr, secondAddr}[i%2])
	}
	var ids []session.ID
	for after := session.ID(0); ; {
		page := list(p.relay, p.now, ListSessions{After: after, Limit: 4})
		for _, s := range page {
			ids = append(ids, s.ID)
			after = s.ID
		}
		if len(page) < 4 {
			break
		}
	}
	if !slices.Equal(ids, []session.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("listed %v", ids)
	}
	for _, c := range []struct {
		q    ListSessions
		want int
	}{
		{ListSessions{Listener: "play", Route: "arena", Limit: 100}, 10},
		{ListSessions{Listener: "other", Limit: 100}, 0},
		{ListSessions{Route: "other", Limit: 100}, 0},
	} {
		if got := len(list(p.relay, p.now, c.q)); got != c.want {
			t.Errorf("%+v: %d, want %d", c.q, got, c.want)
		}
	}
}

// TestPagesAreCheap asserts that a page of 20,000 sessions takes a fraction of the time for all of them. This holds
// for the last page too.
func TestPagesAreCheap(t *testing.T) {
	const players = 20_000
	p, _ := busy(t, players)
	took := func(q ListSessions) time.Duration {
		best := time.Hour
		for range 5 {
			start := time.Now()
			list(p.relay, p.now, q)
			best = min(best, time.Since(start))
		}
		return best
	}
	all, last := took(ListSessions{Limit: players}), took(ListSessions{After: players - 100, Limit: 100})
	t.Logf("all sessions: %v; the last 100: %v", all, last)
	if last > all/2 {
		t.Errorf("the last 100 of %d sessions take %v, all of them %v", players, last, all)
	}
}
