package config

import (
	"slices"
	"strings"
	"testing"

	"tidegate/ratelimit"
)

// withLimits parses a valid file with more text at its end.
func withLimits(t *testing.T, more string) (*Config, error) {
	t.Helper()
	c, _, err := Parse("t.toml", []byte(readFile(t, manual)+more), known)
	return c, err
}

func TestLimitsTakeTheDefaultsPlace(t *testing.T) {
	c, err := withLimits(t, `
[[limit]]
of = "packets"
per = "session"
rate = 100
[[limit]]
of = "bytes"
per = "session"
rate = 1
verdict = "off"
[[limit]]
of = "bytes"
per = "network"
rate = "2MiB"
burst = "8MiB"
verdict = "observe"
`)
	if err != nil {
		t.Fatal(err)
	}
	got := c.EffectiveLimits()
	want := append(slices.Clone(defaultLimits[2:]),
		Limit{WordOf(ratelimit.Packets), WordOf(ratelimit.PerSession), 100, 100, "drop"},
		Limit{WordOf(ratelimit.Bytes), WordOf(ratelimit.PerNetwork), Amount(2 * MiB), Amount(8 * MiB), "observe"})
	if !slices.Equal(got, want) {
		t.Errorf("in force are\n%+v\nwant\n%+v", got, want)
	}
}

func TestFaultyLimits(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"of = \"handshakes\"\nper = \"session\"\nrate = 1",
			`limit[0].per = "session": want "address", "network" or "overall": a session has one handshake`},
		{"of = \"handshakes\"\nper = \"address\"\nrate = 1\nverdict = \"ban\"",
			`limit[0].verdict = "ban": want "drop" or "observe": a new client has no session to end, and its address may ` +
				`be forged`},
		{"of = \"packets\"\nper = \"address\"", "limit[0].rate: want 1 to 1099511627776"},
		{"rate = 1", `limit[0].of: want "packets", "bytes", "handshakes", "reliable_messages" or "queued_bytes"`},
		{"of = \"bytes\"\nper = \"address\"\nrate = 4095", "limit[0].rate = 4095: want 4096 to 1099511627776"},
		{"of = \"bytes\"\nper = \"address\"\nrate = 9000\nburst = \"1KiB\"",
			"limit[0].burst = 1024: want 4096 to 1099511627776"},
		{"of = \"queued_bytes\"\nper = \"address\"\nrate = 9000\nburst = 1",
			"limit[0].burst = 1: want no burst: queued_bytes is not a rate"},
		{"of = \"bytes\"\nper = \"address\"\nrate = \"much\"",
			`limit[0].rate = "much": want a whole number, or a size in quotes`},
		{"of = \"packets\"\nper = \"ip\"\nmax = 3",
			`limit[0].per = "ip": want "session", "address", "network" or "overall"; did you mean "address"?`},
		{"of = \"packets\"\nper = \"address\"\nmax = 3",
			`limit[0].max = 3: want a known key; did you mean "rate"?`},
		{"of = \"packets\"\nper = \"address\"\nrate = 5\n[[limit]]\nof = \"packets\"\nper = \"address\"\nrate = 5",
			"limit[1]: want one limit of packets per address; limit[0] on line"},
	} {
		_, err := withLimits(t, "\n[[limit]]\n"+c.text+"\n")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestFaultyBans(t *testing.T) {
	c := Default()
	c.Bans.Longest = seconds(5)
	_, err := c.Validate(known)
	for _, want := range []string{
		`bans.longest = "5s": want not less than bans.first, which is 10m`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzLimits checks that the limits in force admit something, for any limits in a file.
func FuzzLimits(f *testing.F) {
	f.Add("packets", "address", "5", "7", "ban")
	f.Add("queued_bytes", "overall", `"16MiB"`, "0", "drop")
	f.Add("handshakes", "session", "-1", "99999999999999999999", "off")
	text := readFile(f, manual)
	f.Fuzz(func(t *testing.T, of, per, rate, burst, verdict string) {
		c, _, err := Parse("t.toml", []byte(text+"\n[[limit]]\nof = \""+of+"\"\nper = \""+per+"\"\nrate = "+rate+
			"\nburst = "+burst+"\nverdict = \""+verdict+"\"\n"), known)
		if err != nil {
			return
		}
		for _, l := range c.EffectiveLimits() {
			bytes, queue := l.Of.Is(ratelimit.Bytes), l.Of.Is(ratelimit.QueuedBytes)
			if l.Rate < 1 || !queue && l.Burst < 1 || bytes && l.Burst < largestDatagram {
				t.Fatalf("%+v would stop everything", l)
			}
		}
	})
}

func TestFaultyKernel(t *testing.T) {
	c := Default()
	c.Kernel = Kernel{
		Filter: KernelOff, PacketRate: -1, XDP: []string{"eth0", "eth0", "", "a-name-too-long-for-linux"},
		Forward: KernelAuto,
	}
	_, err := c.Validate(known)
	for _, want := range []string{
		"kernel.packet_rate = -1: want 0 to 10000000",
		`kernel.xdp[1] = "eth0": want each interface once`,
		"kernel.xdp[2]: want the name of an interface, 1 to 15 characters, as in: ip link",
		`kernel.xdp[3] = "a-name-too-long-for-linux": want the name of an interface`,
		`want an empty list while kernel.filter = "off", or filter = "auto"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
