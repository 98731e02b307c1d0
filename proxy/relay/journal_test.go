package relay

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/proxy/stats"
)

func TestAFloodDoesNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	j := newJournal(now, zerolog.New(&log), zerolog.Nop(), false, 1)
	stranger := netip.MustParseAddrPort("192.0.2.7:4000")
	for range 60_000 { // a thousand a second for a minute
		j.drop(now, stats.DropUnknownProtocol, "play", stranger, 14, nil)
		now = now.Add(time.Millisecond)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if want := dropLogBurst + int(time.Minute/dropLogEvery); len(lines) > want {
		t.Fatalf("%d lines, want at most %d", len(lines), want)
	}
	said := 0
	for _, line := range lines {
		var fields struct {
			Reason, Listener, Address string
			Unsaid                    int
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields.Reason != "unknown-protocol" || fields.Listener != "play" || fields.Address != stranger.String() {
			t.Fatalf("line %s", line)
		}
		said += 1 + fields.Unsaid
	}
	if said+int(j.lines.suppressed[stats.DropUnknownProtocol]) != 60_000 {
		t.Errorf("the lines account for %d of 60000", said)
	}
	log.Reset()
	if j.drop(now, stats.DropMalformed, "play", stranger, 3, codec.ErrMalformed); log.Len() == 0 {
		t.Error("one reason's flood silences another")
	}
}

// TestListPingIsNoWarning: a question for a server list in RakNet is counted at a listener without RakNet, but is no
// warning.
func TestListPingIsNoWarning(t *testing.T) {
	rak := raknet.New(raknet.Options{})
	for what, c := range map[string]struct {
		datagram []byte
		warns    bool
	}{
		"a ping": {rak.AppendPing(nil, 7), false},
		"data":   {[]byte{0x84, 1, 0, 0, 0}, true},
		"HTTP":   {[]byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), true},
	} {
		var log bytes.Buffer
		j := newJournal(time.Unix(1e9, 0), zerolog.New(&log).Level(zerolog.InfoLevel), zerolog.Nop(), false, 1)
		err := questionOf(c.datagram)
		j.drop(time.Unix(1e9, 0), stats.DropUnknownProtocol, "play", playerAddr(0), len(c.datagram), err)
		if warns := log.Len() > 0; warns != c.warns {
			t.Errorf("%s: logged %q", what, &log)
		}
	}
}

func TestPlayersAddressesAreHidden(t *testing.T) {
	j := newJournal(time.Time{}, zerolog.Nop(), zerolog.Nop(), true, 1)
	for addr, want := range map[string]string{
		"192.0.2.7:4000":          "192.0.2.0/24",
		"[2001:db8:1:2::3]:4000":  "2001:db8:1::/48",
		"[fe80::1%eth0]:1":        "fe80::/48",
		"[::ffff:192.0.2.7]:4000": "192.0.2.0/24",
	} {
		if got := j.player(netip.MustParseAddrPort(addr)); got != want {
			t.Errorf("%s is told as %s, want %s", addr, got, want)
		}
	}
	if got := j.player(netip.AddrPort{}); got != "hidden" {
		t.Errorf("no address is told as %s", got)
	}
}

// TestUnwrittenLinesCostNothing ends a session many times. Without an access log, and where the log's lines are
// suppressed, no line is put together.
func TestUnwrittenLinesCostNothing(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet6()))
	p := w.join(codec.Hello{Identity: 7})
	if !w.RunUntil(5*time.Second, func() bool { return p.find(codec.Connected) != nil }) {
		t.Fatal("the player is not in")
	}
	r := w.proxy.relay
	for e := range r.table.All {
		end := func() { r.journal.ended(w.Now(), e, stats.ByClient, codec.Closed) }
		for range 1000 {
			end() // until the limit of lines is reached
		}
		if n := testing.AllocsPerRun(100, end); n > 0 {
			t.Errorf("%v allocations for a line that is not written", n)
		}
	}
}
