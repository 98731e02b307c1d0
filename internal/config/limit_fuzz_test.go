package config

import "testing"

// FuzzLimits: whatever limits a file states, those that it is used with let something pass.
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
			if l.Rate < 1 || l.Of != QueuedBytes && l.Burst < 1 || l.Of == Bytes && l.Burst < largestDatagram {
				t.Fatalf("%+v would stop everything", l)
			}
		}
	})
}
