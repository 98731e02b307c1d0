package enet

import (
	"strings"
	"testing"
)

// TestDescribeCaptures explains every captured datagram, and a few of them to the letter.
func TestDescribeCaptures(t *testing.T) {
	for _, c := range loadCaptures(t) {
		var d Describer
		for _, l := range c.Lines {
			text, content, err := d.Describe(l.From == "server", l.Datagram)
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
		text, content, err := new(Describer).Describe(false, []byte(c.datagram))
		if got := text + ": " + strings.Join(content, "; "); err != nil || got != c.want {
			t.Errorf("%q, %v\nwant %q", got, err, c.want)
		}
	}
	for _, bad := range []string{"", "\x00", "\x80\x00", "\x00\x00\x0d\x00\x00\x00", "\x00\x00\x84\xff\x00\x06\x00"} {
		if text, _, err := new(Describer).Describe(false, []byte(bad)); err == nil {
			t.Errorf("%x explained as %q", bad, text)
		}
	}
}
