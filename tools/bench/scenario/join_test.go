package scenario

import (
	"testing"
	"time"
)

// TestJoinOverAPath lets clients join a go-raknet server over a path with a delay. A handshake has at least three trips
// there and back.
func TestJoinOverAPath(t *testing.T) {
	const path = 4 * time.Millisecond
	o := &Options{Sessions: 1, Size: minSize, Rate: 50, Rounds: 1, Window: 200 * time.Millisecond, Path: path}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	from, err := protocolNamed(bedrock)
	if err != nil {
		t.Fatal(err)
	}
	game, err := startGoRakNetGame()
	if err != nil {
		t.Fatal(err)
	}
	defer game.stop()
	l, err := newPathLoad(o, from, game.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := pace(l, o.Rate, o.Window); err != nil {
		t.Fatal(err)
	}
	least := (3 * 2 * path).Microseconds()
	if l.sent != 10 || l.back == 0 || l.delays.Min() < least {
		t.Errorf("%d of %d joined, the fastest in %d µs; want 10, none in less than %d", l.back, l.sent, l.delays.Min(),
			least)
	}
}

// TestDelaysOverDirect compares the delays of joins with those of direct ones.
func TestDelaysOverDirect(t *testing.T) {
	joins := func(p50, p90 int64) []round {
		return []round{{sent: 10, back: 10, all: 1, took: time.Second, p50: p50, p90: p90, p99: p90}}
	}
	sc := &scenario{each: 1, overDirect: true}
	sc.conclude([]*measured{
		{kind: kind{name: "direct"}, rounds: joins(100, 200)}, {kind: kind{name: "tidegate"}, rounds: joins(110, 300)},
	})
	want := Ratio{Setup: "tidegate", P50: 1.1, P90: 1.5, P99: 1.5}
	if len(sc.Ratios) != 1 || sc.Ratios[0].Over != "direct" || sc.Ratios[0].Setups[0] != want {
		t.Errorf("ratios %+v, want %+v over direct", sc.Ratios, want)
	}
}
