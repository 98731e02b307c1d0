package raknet

import (
	"os"
	"strings"
	"testing"

	"tidegate/codec/codectest"
)

// capture is a recorded conversation of two real peers.
type capture struct{ codectest.Capture }

// captured is one datagram of a capture.
type captured = codectest.Line

// captures reads all captures except those of encrypting peers.
func captures(t testing.TB) []capture {
	t.Helper()
	return capturesOf(t, func(file string) bool { return !strings.HasPrefix(file, "secured/") })
}

func capturesOf(t testing.TB, wanted func(file string) bool) []capture {
	t.Helper()
	var all []capture
	for _, c := range codectest.Captures(t, os.DirFS("testdata")) {
		if wanted(c.File) {
			all = append(all, capture{c})
		}
	}
	return all
}

func loadCapture(t testing.TB, file string) capture {
	t.Helper()
	return capture{codectest.LoadCapture(t, os.DirFS("testdata"), file)}
}

// conns returns the number of client addresses.
func (c *capture) conns() (n int) {
	for _, d := range c.Lines {
		n = max(n, d.Conn)
	}
	return n
}

// first returns a side's first datagram in a connection that begins with the byte.
func (c *capture) first(conn int, from string, id byte) (captured, bool) {
	for _, d := range c.Lines {
		if d.Conn == conn && d.From == from && d.Datagram[0] == id {
			return d, true
		}
	}
	return captured{}, false
}

// delivered returns the datagrams that reached the other side of a connection, in order. It leaves out the ones that
// the recorder dropped, and contains duplicated ones twice and delayed ones later.
func (c *capture) delivered(conn int, from string) (list []captured) {
	var held []captured
	for _, d := range c.Lines {
		if d.Conn != conn || d.From != from {
			continue
		}
		_, fate, _ := strings.Cut(d.What, "mitm: ")
		switch {
		case strings.HasPrefix(fate, "dropped"):
			continue
		case strings.HasPrefix(fate, "held back behind next 1"):
			held = append(held, d)
			continue
		case strings.HasPrefix(fate, "delivered twice"):
			list = append(list, d)
		}
		list = append(list, d)
		for _, late := range held {
			late.Millis = d.Millis
			list = append(list, late)
		}
		held = held[:0]
	}
	return append(list, held...)
}
