package demo

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"tidegate/codec"
)

// TestForms checks the message of a probe on each side, and that the probe comes out again unchanged. Greetings are
// skipped.
func TestForms(t *testing.T) {
	p := probe{number: 2, client: 1} // ID 0x0203
	for _, c := range []struct {
		from, to string
		head     string // bytes before the probe, in hexadecimal; ll is the length
		beside   bool   // the ID is outside the payload
	}{
		{"riptide-2.2", "bedrock", "", true},
		{"bedrock", "riptide-2.2", "86 0302", false},
		{"rudp", "riptide-2.2", "ll00 0302", false},
		{"raknet", "rudp", "86 ll00 0302", false},
		{"rtype", "raknet", "03 00000000 0000", false},
		{"raknet", "rtype", "86 0302 03 00000000 0000", false},
		{"riptide-2.0", "rtype", "03 00000000 0000", true},
		{"rudp", "rtype", "ll00 0302 03 00000000 0000", false},
	} {
		pair, err := NewPair(c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		f := formOf(pair, pair.from)
		m := f.message(nil, &p, codec.Unreliable)
		body := p.append(nil)
		frame := strings.Index(strings.ReplaceAll(c.head, " ", ""), "ll") / 2
		want := unhex(t, c.head, len(m.Payload)-frame-2)
		if got := m.Payload[:len(m.Payload)-len(body)]; !bytes.Equal(got, want) || m.HasID != c.beside {
			t.Errorf("%s to %s: begins %x, ID beside it: %v; want %x, %v", c.from, c.to, got, m.HasID, want, c.beside)
		}
		wantProbes(t, f, &m, 1)
		if strings.Contains(c.head, "ll") {
			m.Payload = append(m.Payload, m.Payload[frame:]...)
			wantProbes(t, f, &m, 2)
		}
		f.greet(codec.Unreliable, func(m codec.Message) { wantProbes(t, f, &m, 0) })
	}
}

// unhex reads hexadecimal with spaces, and the length for ll.
func unhex(t *testing.T, s string, length int) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "ll", fmt.Sprintf("%02x", length)).Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantProbes checks the number of unchanged probes in a message.
func wantProbes(t *testing.T, f form, m *codec.Message, want int) {
	t.Helper()
	n := 0
	err := f.probes(m, func(id uint16, body []byte) {
		var p probe
		if err := p.parse(id, body); err != nil {
			t.Error(err)
		}
		n++
	})
	if err != nil || n != want {
		t.Errorf("%d probes in %x, error %v; want %d", n, m.Payload, err, want)
	}
}

// TestFormsShowWhatIsBroken rejects cut messages and messages of no game.
func TestFormsShowWhatIsBroken(t *testing.T) {
	p := probe{number: 2, client: 1}
	for _, pair := range allPairs() {
		f := formOf(pair, pair.from)
		whole := f.message(nil, &p, codec.Unreliable)
		for n := range whole.Payload {
			cut := whole
			cut.Payload = whole.Payload[:n]
			intact := 0
			err := f.probes(&cut, func(id uint16, body []byte) {
				if new(probe).parse(id, body) == nil {
					intact++
				}
			})
			if intact > 0 || err != nil && err != errChanged {
				t.Errorf("%s: %d of %d bytes pass: %v", pair, n, len(whole.Payload), err)
			}
		}
	}
}

// allPairs returns all pairs, ordered by the clients' protocol, then by the server's.
func allPairs() []Pair {
	var all []Pair
	for _, from := range available {
		for _, to := range available {
			all = append(all, Pair{from, to})
		}
	}
	return all
}
