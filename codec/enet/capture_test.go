package enet

import (
	"bytes"
	"os"
	"strings"
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

// commandsOf reads the commands of a datagram, without its checksum if it has one.
func commandsOf(t testing.TB, d []byte, summed bool) (h header, all []command) {
	t.Helper()
	rest, err := h.parse(d)
	if err != nil {
		t.Fatalf("%x: %v", d, err)
	}
	if h.compressed {
		body := len(d) - len(rest)
		if summed {
			body += checksumLen
		}
		plain, ok := new(rangeCoder).unpack(bytes.Clone(d[:body]), d[body:], codec.MaxDatagram)
		if !ok {
			t.Fatalf("%x: not by the range coder", d)
		}
		rest = plain[len(d)-len(rest):]
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

// TestCapturesAreWellFormed: our sides take no datagram of the real library for malformed. With checksums that needs
// the connect ID, which TestReplay has.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range loadCaptures(t) {
		if !strings.HasSuffix(c.Name, "crc32") {
			codectest.Replay(t, c, New(Options{}))
		}
	}
}

// TestDescribeCaptures explains every captured datagram, and a few of them to the letter.
func TestDescribeCaptures(t *testing.T) {
	for _, c := range loadCaptures(t) {
		var d describer
		for _, l := range c.Lines {
			text, content, err := d.describe(l.From == "server", l.Datagram)
			if err != nil || text == "" || len(content) == 0 {
				t.Errorf("%s: %x: %q, %q, %v", c.File, l.Datagram, text, content, err)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ datagram, want string }{
		{"\x00\x00\x01\xff\x00\x02\x00\x02\x67\xdc", "to peer 0, session 0: acknowledge #2, sent at 26588 ms"},
		{"\x80\x00\x6c\x5a\x84\xff\x00\x06\x00\x00\x00\x07", "to peer 0, session 0, at 27738 ms: disconnect #6: data 7"},
		{"\x00\x00\x07\x01\x00\x02\x00\x01\x00\x02hi",
			"to peer 0, session 0: unreliable on channel 1 #1 after #2: 2 bytes: 6869"},
	} {
		text, content, err := new(describer).describe(false, []byte(c.datagram))
		if got := text + ": " + strings.Join(content, "; "); err != nil || got != c.want {
			t.Errorf("%q, %v\nwant %q", got, err, c.want)
		}
	}
	for _, bad := range []string{"", "\x00", "\x80\x00", "\x00\x00\x0d\x00\x00\x00", "\x00\x00\x84\xff\x00\x06\x00"} {
		if text, _, err := new(describer).describe(false, []byte(bad)); err == nil {
			t.Errorf("%x explained as %q", bad, text)
		}
	}
}
