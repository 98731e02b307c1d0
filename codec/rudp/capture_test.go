package rudp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/codec/codectest"
)

// line is a datagram between a real client and a real server, as a relay saw it. testdata/<library and version> has a
// file for each scenario, with a line of description and then one for each datagram.
type line struct {
	Millis float64 `json:"t_ms"`
	From   string  `json:"from"` // "client" or "server"
	Hex    string  `json:"hex"`
	Relay  string  `json:"relay"` // "dropped", or "delivered after ms: 0, 20"; empty: delivered at once
	Client int     `json:"conn"`  // which of several clients

	datagram []byte
}

// loadCaptures reads all captures, by scenario and client: "two-clients/1".
func loadCaptures(t testing.TB) map[string][]line {
	t.Helper()
	files, err := filepath.Glob("testdata/rudp-0.12.0/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("captures: %d files, %v", len(files), err)
	}
	all := map[string][]line{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for row := range strings.Lines(string(text)) {
			var l line
			if err := json.Unmarshal([]byte(row), &l); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if l.From == "" {
				continue
			}
			l.datagram = codectest.Unhex(t, l.Hex)
			name := strings.TrimSuffix(filepath.Base(file), ".jsonl") + "/" + strconv.Itoa(l.Client)
			all[name] = append(all[name], l)
		}
	}
	return all
}

func (l *line) at() time.Time { return start.Add(time.Duration(l.Millis * float64(time.Millisecond))) }

// arrival is a datagram that reaches our side.
type arrival struct {
	at       time.Time
	datagram []byte
}

// relayTimer is by how much the relay's delays are longer than they say: a delayed datagram comes after one that is
// passed on at once at the same time.
const relayTimer = 50 * time.Microsecond

// arrivals are the datagrams from a real peer, copy by copy, as they reached the other.
func arrivals(t testing.TB, lines []line, from string) (all []arrival) {
	for _, l := range lines {
		delays, delayed := strings.CutPrefix(l.Relay, "delivered after ms: ")
		switch {
		case l.From != from || l.Relay == "dropped":
			continue
		case !delayed:
			delays = "0"
		}
		for delay := range strings.SplitSeq(delays, ", ") {
			ms, err := strconv.Atoi(delay)
			if err != nil {
				t.Fatalf("relay %q: %v", l.Relay, err)
			}
			at := l.at().Add(time.Duration(ms) * time.Millisecond)
			if ms > 0 {
				at = at.Add(relayTimer)
			}
			all = append(all, arrival{at, l.datagram})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	return all
}

// parse parses a datagram that must be a packet.
func parse(t testing.TB, d []byte) packet {
	t.Helper()
	var p packet
	if err := p.parse(d); err != nil {
		t.Fatalf("%x: %v", d, err)
	}
	return p
}
