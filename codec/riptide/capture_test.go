package riptide

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// capture is what a relay between a real client and a real server saw. testdata/<library and version>/<scenario>.jsonl
// has a line of description and then one for each datagram; where the scenario begins with tcp/, for each read of a
// stream.
type capture struct {
	version  string
	scenario string
	lines    []line // a datagram each, also of streams
}

// line is a datagram as the relay saw it.
type line struct {
	Millis float64 `json:"t_ms"`
	From   string  `json:"from"`
	Hex    string  `json:"hex"`
	Relay  string  `json:"relay"` // "dropped", or "delivered after ms: 0, 20"; empty: delivered at once
	Client int     `json:"conn"`  // which of several clients

	datagram []byte
}

// loadCaptures reads all captures.
func loadCaptures(t *testing.T) (all []capture) {
	t.Helper()
	for _, pattern := range []string{"*.jsonl", "tcp/*.jsonl"} {
		files, err := filepath.Glob("testdata/*/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("captures %s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			all = append(all, loadCapture(t, file))
		}
	}
	return all
}

func loadCapture(t *testing.T, file string) (c capture) {
	t.Helper()
	name := strings.TrimPrefix(filepath.ToSlash(file), "testdata/")
	c.version, c.scenario, _ = strings.Cut(strings.TrimSuffix(name, ".jsonl"), "/")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if l.From != "" {
			l.datagram = codectest.Unhex(t, l.Hex)
			c.lines = append(c.lines, l)
		}
	}
	if strings.HasPrefix(c.scenario, "tcp/") {
		c.unframe(t)
	}
	if len(c.lines) == 0 {
		t.Fatalf("%s: empty", file)
	}
	return c
}

// dialect is the one that the library of the capture speaks.
func (c *capture) dialect() Version {
	if c.version == "riptide-2.0.0" {
		return V20
	}
	return V22
}

// of returns the lines of one client and its server.
func (c *capture) of(client int) []line {
	return slices.DeleteFunc(slices.Clone(c.lines), func(l line) bool { return l.Client != client })
}

func (l *line) at() time.Time { return start.Add(time.Duration(l.Millis * float64(time.Millisecond))) }

// arrivals are when the datagram reached its receiver, copy by copy.
func (l *line) arrivals(t *testing.T) (times []time.Time) {
	delays, delayed := strings.CutPrefix(l.Relay, "delivered after ms: ")
	switch {
	case l.Relay == "dropped":
		return nil
	case !delayed:
		return []time.Time{l.at()}
	}
	for delay := range strings.SplitSeq(delays, ", ") {
		ms, err := strconv.Atoi(delay)
		if err != nil {
			t.Fatalf("relay %q: %v", l.Relay, err)
		}
		times = append(times, l.at().Add(time.Duration(ms)*time.Millisecond))
	}
	return times
}

// reading is a datagram read bit by bit, independently of the code under test, but for its type.
type reading struct {
	kind kind
	seq  seq
	message
}

// message is an application message in a form that can be compared.
type message struct {
	mode    codec.Mode
	id      uint16
	payload string
	pad     uint8
}

func (m message) String() string { return fmt.Sprintf("%v %d %x/%d", m.mode, m.id, m.payload, m.pad) }

// read reads a datagram of dialect v.
func read(v Version, d []byte) reading {
	at := []int{V22: 4, V20: 8}[v]
	take := func(n int) (v uint64) {
		for i := range n {
			v |= uint64(d[at/8]>>(at%8)&1) << i
			at++
		}
		return v
	}
	r := reading{kind: dialects[v].kindOf(d)}
	switch r.kind {
	case kindUnreliable:
		r.mode = codec.Unreliable
	case kindNotify:
		r.mode = codec.Notify
		take(24)
		r.seq = seq(take(16))
	case kindReject, kindDisconnect:
		if len(d) > 1 {
			r.id = uint16(take(8))
		}
	}
	if r.kind >= kindReliable {
		r.mode = codec.Reliable
		r.seq = seq(take(16))
	}
	switch r.kind {
	case kindUnreliable, kindReliable:
		if v == V20 {
			r.id = uint16(take(16))
			break
		}
		for shift := 0; ; shift += 7 {
			group := take(8)
			r.id |= uint16(group&0x7f) << shift
			if group < 0x80 {
				break
			}
		}
	case kindWelcome, kindClientConnected, kindClientDisconnected:
		r.id = uint16(take(16))
	}
	var payload []byte
	for 8*len(d)-at >= 8 {
		payload = append(payload, byte(take(8)))
	}
	if rest := byte(take(8*len(d) - at)); rest != 0 {
		payload = append(payload, rest)
		r.pad = 4
	}
	r.payload = string(payload)
	return r
}

// readAck reads an acknowledgement.
func readAck(t *testing.T, v Version, d []byte) (a ack) {
	t.Helper()
	if err := a.parse(&dialects[v], d); err != nil {
		t.Fatalf("acknowledgement %x: %v", d, err)
	}
	return a
}
