package flood

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/tools/bench/process"
)

// TestInvalidOptions checks the bounds of the options.
func TestInvalidOptions(t *testing.T) {
	good := Options{Clients: 1, Rate: 30, Window: time.Second}
	for says, change := range map[string]func(*Options){
		"0 clients":  func(o *Options) { o.Clients = 0 },
		"0 turns":    func(o *Options) { o.Rate = 0 },
		"for 10ms":   func(o *Options) { o.Window = 10 * time.Millisecond },
		`"apache"`:   func(o *Options) { o.Vs = []string{"apache"} },
		`"rain"`:     func(o *Options) { o.Kinds = []string{"rain"} },
		"flood of -": func(o *Options) { o.Flood = -1 },
	} {
		o := good
		change(&o)
		if _, err := Run(&o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", o, err, says)
		}
	}
}

// TestClients connects the clients to the game servers without a subject. Every message returns, and every attack has
// packets.
func TestClients(t *testing.T) {
	c, err := newClients(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var to [listeners]netip.AddrPort
	for listener, s := range c.servers {
		to[listener] = s.Addr()
	}
	if err := c.join(openLoopback(), to, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.run(10*time.Second, func() bool { return c.connected() == listeners }); err != nil ||
		c.connected() != listeners {
		t.Fatalf("%d of %d clients are connected, %v", c.connected(), listeners, err)
	}
	c.sending = true
	if err := c.run(20*time.Second, func() bool { return len(c.recording.later) >= listeners }); err != nil {
		t.Fatal(err)
	}
	c.sending = false
	if err := c.run(10*time.Second, func() bool { return c.missing() == 0 }); err != nil {
		t.Fatal(err)
	}
	var f Figures
	f.addClients(c, listeners)
	if f.Reliable == 0 || f.ReliableLost > 0 || f.Unreliable == 0 || f.Gone > 0 {
		t.Errorf("%+v", f)
	}
	for _, a := range attacks {
		if len(a.packets(&c.recording)) == 0 {
			t.Errorf("%s: no packets", a.name)
		}
	}
}

// TestForgedHandshakes checks that the protocols recognize the forged datagrams as first ones.
func TestForgedHandshakes(t *testing.T) {
	for _, s := range append(forgedHandshakes(nil), pings(nil)...) {
		if !spoken[s.listener].Sniff(s.payload) {
			t.Errorf("%s does not recognize %x", spoken[s.listener].Spec().Name, s.payload[:min(len(s.payload), 30)])
		}
	}
}

// TestRawSender checks the headers and sources of the raw sender's packets.
func TestRawSender(t *testing.T) {
	client := netip.MustParseAddrPort("127.100.64.1:5000")
	for _, kind := range sourceKinds {
		s := &rawSender{plan: testPlan(openLoopback(), &kind, client), random: rand.NewPCG(1, 2)}
		checkForged(t, s.plan, func() []byte { return s.forge(make([]byte, 1600)) })
	}
}

// testPlan returns a plan with one packet to port 7777 and one client.
func testPlan(t *testbed, a *attack, client netip.AddrPort) *plan {
	return &plan{
		testbed: t, attack: a, packets: []packet{{riptideListener, forgedPayload}}, clients: []netip.AddrPort{client},
		to: [listeners]netip.AddrPort{riptideListener: netip.AddrPortFrom(process.Loopback, 7777)},
	}
}

var (
	sourceKinds   = []attack{{name: "plain"}, {name: "banned", banned: true}, {name: "replay", replay: true}}
	forgedPayload = []byte("seventeen letters")
)

// checkForged reads packets of a plan of testPlan.
func checkForged(t *testing.T, p *plan, next func() []byte) {
	t.Helper()
	asClient := 0
	for range 200 {
		b := next()
		source := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), binary.BigEndian.Uint16(b[20:]))
		switch {
		case string(b[headersSize:]) != string(forgedPayload) || binary.BigEndian.Uint16(b[22:]) != 7777:
			t.Fatalf("%s: %x", p.attack.name, b)
		case int(binary.BigEndian.Uint16(b[24:])) != 8+len(forgedPayload) || int(binary.BigEndian.Uint16(b[2:])) != len(b):
			t.Fatalf("%s: lengths of %x", p.attack.name, b)
		case source == p.clients[0]:
			asClient++
		case p.testbed.banned().Contains(source.Addr()) != p.attack.banned || source.Port() < 1024:
			t.Fatalf("%s: from %v", p.attack.name, source)
		}
	}
	if (asClient > 0) != p.attack.replay {
		t.Errorf("%s: %d with the client's address", p.attack.name, asClient)
	}
}

// TestGauges subtracts the processor time of the calm from the flood's.
func TestGauges(t *testing.T) {
	var f Figures
	f.addGauges(&gauges{took: 2 * time.Second, cpu: time.Second, user: 100_000, kernel: 60_000, buffer: 40_000},
		&gauges{took: time.Second, cpu: 100 * time.Millisecond}, 300_000)
	want := Figures{Sent: 150_000, User: 50_000, Kernel: 30_000, Buffer: 20_000, Core: 0.4, DropCost: 4000}
	if f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
}

// TestDropsOfMetrics adds up the metrics of a scrape.
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
