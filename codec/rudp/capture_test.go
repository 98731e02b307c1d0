package rudp

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tidegate/codec/codectest"
)

// line is a datagram between a real client and a real server, recorded by a relay.
type line = codectest.Line

// loadCaptures reads all captures, by scenario and client: "two-clients/1".
func loadCaptures(t testing.TB) map[string][]line {
	t.Helper()
	all := map[string][]line{}
	for _, c := range codectest.Captures(t, os.DirFS("testdata")) {
		for _, client := range c.Clients() {
			all[c.Name+"/"+strconv.Itoa(client)] = c.Of(client)
		}
	}
	return all
}

// arrival is a datagram that reaches our side.
type arrival struct {
	at       time.Time
	datagram []byte
}

// relayTimer is the extra time of the relay's delays. A delayed datagram arrives after one that the relay passes on at
// once at the same time.
const relayTimer = 50 * time.Microsecond

// arrivals returns the datagrams from a real peer, copy by copy, as they reached the other.
func arrivals(t testing.TB, lines []line, from string) (all []arrival) {
	for _, l := range lines {
		if l.From != from {
			continue
		}
		for _, delay := range l.Delays(t) {
			at := start.Add(l.At() + delay)
			if delay > 0 {
				at = at.Add(relayTimer)
			}
			all = append(all, arrival{at, l.Datagram})
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
