package enet

import (
	"os"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// loadCaptures reads the captures of the real library's client and server.
func loadCaptures(t testing.TB) []codectest.Capture {
	t.Helper()
	return codectest.Captures(t, os.DirFS("testdata"))
}

// captured is a datagram of a capture.
type captured struct{ codectest.Line }

func (c *captured) at() time.Time { return start.Add(c.At()) }

func (c *captured) lost() bool { return c.Relay == "dropped" }

var start = time.Unix(1_700_000_000, 0)

// commandsOf reads the commands of a datagram, without its checksum where it has one.
func commandsOf(t testing.TB, d []byte, summed bool) (h header, all []command) {
	t.Helper()
	rest, err := h.parse(d)
	if err != nil {
		t.Fatalf("%x: %v", d, err)
	}
	if summed {
		rest = rest[checksumLen:]
	}
	for len(rest) > 0 {
		var c command
		if rest, err = c.parse(rest); err != nil {
			t.Fatalf("%x: %v", d, err)
		}
		all = append(all, c)
	}
	return h, all
}

// received is a message that our side has received.
type received struct {
	mode    codec.Mode
	channel uint8
	payload string
}

// TestCapturesAreWellFormed: the real library says nothing that our sides take for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range loadCaptures(t) {
		codectest.Replay(t, c, New(Options{}))
	}
}
