package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestFloodsThatCannotBe(t *testing.T) {
	good := FloodOptions{Players: 1, Rate: 30, Window: time.Second}
	for says, change := range map[string]func(*FloodOptions){
		"0 players":  func(o *FloodOptions) { o.Players = 0 },
		"0 turns":    func(o *FloodOptions) { o.Rate = 0 },
		"for 10ms":   func(o *FloodOptions) { o.Window = 10 * time.Millisecond },
		`"apache"`:   func(o *FloodOptions) { o.Vs = []string{"apache"} },
		`"rain"`:     func(o *FloodOptions) { o.Kinds = []string{"rain"} },
		"flood of -": func(o *FloodOptions) { o.Flood = -1 },
	} {
		o := good
		change(&o)
		if _, err := Flood(&o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", o, err, says)
		}
	}
}

// TestParty has players at the game servers themselves: everything comes back, and the tape has what the floods want.
func TestParty(t *testing.T) {
	g, err := newParty(100)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	var to [doors]netip.AddrPort
	for door, s := range g.servers {
		to[door] = s.socket.Addr()
	}
	if err := g.join(openLoopback(), to, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := g.play(10*time.Second, func() bool { return g.ready() == doors }); err != nil || g.ready() != doors {
		t.Fatalf("%d of %d players are there, %v", g.ready(), doors, err)
	}
	g.sending = true
	if err := g.play(20*time.Second, func() bool { return len(g.tape.later) >= doors }); err != nil {
		t.Fatal(err)
	}
	g.sending = false
	if err := g.play(10*time.Second, func() bool { return g.missing() == 0 }); err != nil {
		t.Fatal(err)
	}
	var f FloodFigures
	f.count(g, doors)
	if f.Reliable == 0 || f.ReliableLost > 0 || f.Unreliable == 0 || f.Gone > 0 {
		t.Errorf("%+v", f)
	}
	for _, a := range assaults {
		if shots := a.arm(&g.tape); len(shots) == 0 {
			t.Errorf("%s: nothing to send", a.name)
		}
	}
}

// TestForgedHandshakes are first datagrams that the protocols take for such.
func TestForgedHandshakes(t *testing.T) {
	for _, s := range append(armForged(nil), armPings(nil)...) {
		if !spoken[s.door].Sniff(s.payload) {
			t.Errorf("%s does not know %x", spoken[s.door].Spec().Name, s.payload[:min(len(s.payload), 30)])
		}
	}
}

// TestForge reads back what a flooder writes: whole packets of the sources that the flood is to have.
func TestForge(t *testing.T) {
	a := openLoopback()
	player := netip.MustParseAddrPort("127.100.64.1:5000")
	for _, kind := range kindsOfSources {
		g := &rawGun{flood: &flood{arena: a, assault: &kind, shots: []shot{{doorRiptide, forgedPayload}}, players: []netip.AddrPort{player},
			to: [doors]netip.AddrPort{doorRiptide: netip.AddrPortFrom(home, 7777)}}, random: rand.NewPCG(1, 2)}
		checkForged(t, g.flood, func() []byte { return g.forge(make([]byte, 1600)) })
	}
}

var (
	kindsOfSources = []assault{{name: "plain"}, {name: "banned", banned: true}, {name: "players", players: true}}
	forgedPayload  = []byte("seventeen letters")
)

// checkForged reads packets of a flood of one shot and one player.
func checkForged(t *testing.T, f *flood, next func() []byte) {
	t.Helper()
	asPlayer := 0
	for range 200 {
		b := next()
		source := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), binary.BigEndian.Uint16(b[20:]))
		switch {
		case string(b[headersSize:]) != string(forgedPayload) || binary.BigEndian.Uint16(b[22:]) != 7777:
			t.Fatalf("%s: %x", f.assault.name, b)
		case int(binary.BigEndian.Uint16(b[24:])) != 8+len(forgedPayload) || int(binary.BigEndian.Uint16(b[2:])) != len(b):
			t.Fatalf("%s: lengths of %x", f.assault.name, b)
		case source == f.players[0]:
			asPlayer++
		case f.arena.banned().Contains(source.Addr()) != f.assault.banned || source.Port() < 1024:
			t.Fatalf("%s: from %v", f.assault.name, source)
		}
	}
	if (asPlayer > 0) != f.assault.players {
		t.Errorf("%s: %d in a player's name", f.assault.name, asPlayer)
	}
}

// TestTally counts what the flood costs beyond the calm.
func TestTally(t *testing.T) {
	var f FloodFigures
	f.tally(&reading{took: 2 * time.Second, cpu: time.Second, user: 100_000, kernel: 60_000, buffer: 40_000},
		&reading{took: time.Second, cpu: 100 * time.Millisecond}, 300_000)
	want := FloodFigures{Sent: 150_000, User: 50_000, Kernel: 30_000, Buffer: 20_000, Core: 0.4, DropCost: 4000}
	if f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
}

func TestDropsOfMetrics(t *testing.T) {
	var d drops
	err := d.parse(strings.NewReader(`# HELP tidegate_dropped_total Datagrams
tidegate_dropped_total{listener="a",reason="rate"} 3
tidegate_dropped_total{listener="b",reason="empty"} 1e+02
tidegate_kernel_filtered_total{hook="socket",verdict="banned"} 7
tidegate_kernel_filtered_total{hook="socket",verdict="passed"} 1000
tidegate_kernel_filtered_total{hook="interface",verdict="rate"} 9
tidegate_up 1
`))
	if want := (drops{user: 103, socket: 7, device: 9}); d != want || err != nil {
		t.Errorf("%+v, %v; want %+v", d, err, want)
	}
}
