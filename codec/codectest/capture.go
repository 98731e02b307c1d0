package codectest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Capture is a recorded conversation of real peers: a file of JSON Lines, gzipped if it is long. The first line
// describes the capture. Each other line is a datagram, or a read of a stream.
type Capture struct {
	File     string // path in the file system of the capture
	Name     string // base name without extensions
	Protocol string // the recorder's name for the protocol
	Stream   bool   // the peers used TCP
	Lines    []Line
}

// Line is one datagram that passed through the recorder. The recorder may have simulated a bad network.
type Line struct {
	Millis   float64 `json:"t_ms"` // milliseconds since the start of the recording
	From     string  `json:"from"` // "client" or "server"
	Conn     int     `json:"conn"` // number of the client
	Hex      string  `json:"hex"`
	What     string  `json:"what"`  // description
	Relay    string  `json:"relay"` // "dropped", or "delivered after ms: 0, 20"; empty: delivered at once
	Datagram []byte  `json:"-"`
}

// At returns when the recorder saw the datagram, since the start of the recording.
func (l *Line) At() time.Duration { return time.Duration(l.Millis * float64(time.Millisecond)) }

// Delays lists how long each copy of the datagram took to reach the other side. The list is empty if the recorder
// dropped the datagram.
func (l *Line) Delays(t testing.TB) []time.Duration {
	t.Helper()
	delays, delayed := strings.CutPrefix(l.Relay, "delivered after ms: ")
	switch {
	case l.Relay == "dropped":
		return nil
	case !delayed:
		return []time.Duration{0}
	}
	var all []time.Duration
	for delay := range strings.SplitSeq(delays, ", ") {
		ms, err := strconv.Atoi(delay)
		if err != nil {
			t.Fatalf("relay %q: %v", l.Relay, err)
		}
		all = append(all, time.Duration(ms)*time.Millisecond)
	}
	return all
}

// Captures reads all captures of a file system.
func Captures(t testing.TB, files fs.FS) []Capture {
	t.Helper()
	var all []Capture
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(strings.TrimSuffix(file, ".gz"), ".jsonl") {
			all = append(all, LoadCapture(t, files, file))
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d captures, %v", len(all), err)
	}
	return all
}

// LoadCapture reads one capture.
func LoadCapture(t testing.TB, files fs.FS, file string) Capture {
	t.Helper()
	name, _, _ := strings.Cut(path.Base(file), ".")
	c := Capture{File: file, Name: name}
	lines := bufio.NewScanner(bytes.NewReader(ReadCapture(t, files, file)))
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var row struct {
			Line
			Protocol, Transport string
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s:%d: %v", file, number, err)
		}
		if row.Protocol != "" {
			c.Protocol, c.Stream = row.Protocol, row.Transport == "tcp"
		}
		if row.From != "" {
			row.Datagram = Unhex(t, row.Hex)
			c.Lines = append(c.Lines, row.Line)
		}
	}
	if err := lines.Err(); err != nil || len(c.Lines) == 0 {
		t.Fatalf("%s: %d datagrams, %v", file, len(c.Lines), err)
	}
	return c
}

// ReadCapture reads a capture's text.
func ReadCapture(t testing.TB, files fs.FS, file string) []byte {
	t.Helper()
	text, err := fs.ReadFile(files, file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(file, ".gz") {
		return text
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if text, err = io.ReadAll(unzipped); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return text
}

// Clients returns the numbers of the capture's clients.
func (c *Capture) Clients() []int {
	var all []int
	for _, l := range c.Lines {
		if !slices.Contains(all, l.Conn) {
			all = append(all, l.Conn)
		}
	}
	slices.Sort(all)
	return all
}

// Of returns the lines of one client and its server.
func (c *Capture) Of(client int) []Line {
	return slices.DeleteFunc(slices.Clone(c.Lines), func(l Line) bool { return l.Conn != client })
}

// From returns the lines that one side of a client's connection sent.
func (c *Capture) From(client int, side string) []Line {
	return slices.DeleteFunc(c.Of(client), func(l Line) bool { return l.From != side })
}
