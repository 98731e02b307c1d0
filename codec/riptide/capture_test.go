package riptide

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// capture is the record of a relay between a real client and a real server: testdata/<library and
// version>/<scenario>.jsonl. If the scenario begins with tcp/, each line was a read of a stream, and is a message now.
type capture struct {
	codectest.Capture
	version  string
	scenario string
}

type line = codectest.Line

// loadCaptures reads all captures.
func loadCaptures(t *testing.T) (all []capture) {
	t.Helper()
	for _, loaded := range codectest.Captures(t, os.DirFS("testdata")) {
		c := capture{Capture: loaded}
		c.version, c.scenario, _ = strings.Cut(strings.TrimSuffix(c.File, ".jsonl"), "/")
		if c.Stream {
			c.unframe(t)
		}
		all = append(all, c)
	}
	return all
}

// dialect returns the dialect of the capture's library.
func (c *capture) dialect() Version {
	if c.version == "riptide-2.0.0" {
		return V20
	}
	return V22
}

// arrivals returns when a datagram reached its receiver, copy by copy.
func arrivals(t *testing.T, l *line) (times []time.Time) {
	for _, delay := range l.Delays(t) {
		times = append(times, start.Add(l.At()+delay))
	}
	return times
}

// reading is a datagram read bit by bit, independently of the code under test, except for its type.
type reading struct {
	kind kind
	seq  seq
	message
}

// message is an application message in a comparable form.
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
