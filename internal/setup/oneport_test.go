package setup

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/config"
)

// opening is the first datagram that a client of a capture sent.
type opening struct {
	file     string
	protocol string // as the capture's first line has it
	datagram []byte
}

// openings reads the first client datagrams of all captures, one for each client.
func openings(t *testing.T) []opening {
	t.Helper()
	var all []opening
	for _, pattern := range []string{"../../codec/*/testdata/*.jsonl", "../../codec/*/testdata/*/*.jsonl"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.Contains(file, "tcp-") { // a stream's first bytes are a length
				all = append(all, openingsOf(t, file)...)
			}
		}
	}
	if len(all) < 150 {
		t.Fatalf("only %d captured clients", len(all))
	}
	return all
}

func openingsOf(t *testing.T, file string) []opening {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	protocol := ""
	seen := make(map[int]bool)
	var all []opening
	for lines.Scan() {
		var line struct {
			Protocol, From, Hex string
			Conn                int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if line.Protocol != "" {
			protocol = line.Protocol
		}
		if line.From != "client" || seen[line.Conn] {
			continue
		}
		seen[line.Conn] = true
		datagram, err := hex.DecodeString(line.Hex)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, opening{file, protocol, datagram})
	}
	return all
}

// takers are the protocols that would take a first datagram at a listener that speaks all, in the order in which they
// are asked. One that knows it less surely than another before it never gets it, and is left out.
func takers(datagram []byte, app uint16, listed ...string) []string {
	c := config.Default()
	c.RUDP.AppID = app
	var all []string
	for _, name := range surestFirst(listed) {
		if len(all) > 0 && byName(name).evidence > byName(all[0]).evidence {
			break
		}
		if build(name, c, use{}).Sniff(datagram) {
			all = append(all, name)
		}
	}
	return all
}

// everything is a listener's list without an ambiguity.
var everything = []string{"riptide-2.2", "riptide-2.0", "rtype-32", "rtype-final", "rudp", "raknet"}

// TestOnePortForAll: each first datagram of each capture has exactly one taker, and the right one. raknet stands for
// bedrock too: to a newcomer they are one protocol.
func TestOnePortForAll(t *testing.T) {
	counts := make(map[string]int)
	for _, o := range openings(t) {
		var app uint16
		if o.protocol == "rudp" {
			app = binary.BigEndian.Uint16(o.datagram)
		}
		want := wantTaker(o)
		counts[want]++
		if got := takers(o.datagram, app, everything...); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %x... goes to %v, want %s", o.file, o.datagram[:min(8, len(o.datagram))], got, want)
		}
	}
	for _, name := range []string{"raknet", "riptide-2.0", "riptide-2.2", "rudp", "rtype-32", "rtype-final"} {
		if counts[name] == 0 {
			t.Errorf("no capture of %s", name)
		}
	}
	if got := takers([]byte("start"), 0, everything...); !slices.Equal(got, []string{"rtype-32"}) {
		t.Errorf("R-Type's hello goes to %v", got)
	}
}

// wantTaker is the protocol that a capture's client speaks, as Tidegate calls it.
func wantTaker(o opening) string {
	switch {
	case strings.HasPrefix(o.protocol, "riptide-2.0"):
		return "riptide-2.0"
	case strings.HasPrefix(o.protocol, "riptide"):
		return "riptide-2.2"
	case o.protocol == "rtype" && len(o.datagram) == 1:
		return "rtype-final"
	case o.protocol == "rtype":
		return "rtype-32"
	}
	return o.protocol
}

// TestAmbiguousInputsFollowTheConfiguration: "up pressed" of the document's R-Type is a Connect of Riptide 2.2.
func TestAmbiguousInputsFollowTheConfiguration(t *testing.T) {
	for _, order := range [][]string{{"rtype-0.0.1", "riptide-2.2"}, {"riptide-2.2", "rtype-0.0.1"}} {
		if got := takers([]byte{2}, 0, order...); !slices.Equal(got, order) {
			t.Errorf("listed as %v: asked as %v", order, got)
		}
	}
}
