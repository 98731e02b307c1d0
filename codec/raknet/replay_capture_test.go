package raknet

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/codec/codectest"
)

// capture is a recorded conversation of two real peers: a file of testdata, JSON Lines, gzipped if it is long. The first
// line says what was recorded of which library, the others are a datagram each.
type capture struct {
	name      string
	datagrams []captured
}

// captured is one datagram on its way through the recorder, which may have played a bad network: What says so.
type captured struct {
	Millis float64 `json:"t_ms"`
	From   string  `json:"from"` // client or server
	Conn   int     `json:"conn"` // counts client addresses
	Hex    string  `json:"hex"`
	What   string  `json:"what"`

	wire []byte
}

func (d *captured) at() time.Duration { return time.Duration(d.Millis * float64(time.Millisecond)) }

func captures(t testing.TB) []capture {
	t.Helper()
	return capturesOf(t, "testdata/*.jsonl*")
}

func capturesOf(t testing.TB, pattern string) []capture {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	var all []capture
	for _, name := range names {
		all = append(all, loadCapture(t, name))
	}
	return all
}

func loadCapture(t testing.TB, path string) capture {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	c := capture{name: name}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if number == 1 {
			continue // library and scenario, for people
		}
		var d captured
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatalf("%s:%d: %v", path, number, err)
		}
		d.wire = codectest.Unhex(t, d.Hex)
		c.datagrams = append(c.datagrams, d)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

// conns is the number of client addresses.
func (c *capture) conns() (n int) {
	for _, d := range c.datagrams {
		n = max(n, d.Conn)
	}
	return n
}

// first returns the first datagram from a side of a connection that begins with the byte.
func (c *capture) first(conn int, from string, id byte) (captured, bool) {
	for _, d := range c.datagrams {
		if d.Conn == conn && d.From == from && d.wire[0] == id {
			return d, true
		}
	}
	return captured{}, false
}

// delivered returns what reached the other side of a connection, in order: without what the recorder dropped, twice
// what it duplicated, and later what it held back.
func (c *capture) delivered(conn int, from string) (list []captured) {
	var held []captured
	for _, d := range c.datagrams {
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
