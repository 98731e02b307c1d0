package rtype

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/rtypegame"
)

// capture is the traffic between the game's own client and server. s2_proxy_server_restart is the client's side of a
// session through a proxy, with a restart of the server.
type capture struct {
	file    string
	dialect Dialect
	stage   rtypegame.Stage
}

var captures = []capture{
	{"s1_direct_early16", Game16, rtypegame.Early},
	{"s2_direct", Game32, rtypegame.Late},
	{"s2_proxy_server_restart", Game32, rtypegame.Late},
	{"s3_direct_final", GameLast, rtypegame.Final},
}

type captured struct {
	From string `json:"from"`
	Hex  string `json:"hex"`

	fromServer bool
	datagram   []byte
}

func (c *capture) load(t *testing.T) (all []captured) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + c.file + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
		var line captured
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.From != "" {
			line.fromServer, line.datagram = line.From == "server", codectest.Unhex(t, line.Hex)
			all = append(all, line)
		}
	}
	if len(all) < 500 {
		t.Fatalf("%s: %d datagrams", c.file, len(all))
	}
	return all
}

// playback is a session of a capture with both our sides in its middle.
type playback struct {
	t      *testing.T
	what   string
	client *client // towards the captured server
	server *server // towards the captured client
	direct *rtypegame.Client
	behind *rtypegame.Client // receives our server's datagrams
	passed int               // instructions
	heard  int               // updates and keys
}

// TestCaptures replays the messages of the game's own peers through both our sides. Each instruction, update and key
// leaves unchanged, byte by byte. The game's client has the same world behind us as directly.
func TestCaptures(t *testing.T) {
	for _, c := range captures {
		for _, dialect := range []Dialect{c.dialect, Auto} {
			t.Run(c.file+" as "+names[dialect], func(t *testing.T) { c.replay(t, dialect) })
		}
	}
}

func (c *capture) replay(t *testing.T, dialect Dialect) {
	lines := c.load(t)
	r := &playback{
		t: t, what: c.file, client: dialed(t, Options{Dialect: dialect}),
		server: admitted(t, Options{Dialect: dialect}, lines[0].Hex),
		direct: rtypegame.NewClient(c.stage), behind: rtypegame.NewClient(c.stage),
	}
	for _, line := range lines[1:] {
		if line.fromServer {
			r.fromServer(line.datagram)
		} else {
			r.fromClient(line.datagram)
		}
	}
	r.behind.Ended = r.direct.Ended // goodbyes do not cross as messages
	if d := rtypegame.Compare(r.direct.World, r.behind.World); d.Sum() != 0 || len(r.direct.World) == 0 {
		t.Errorf("of %d entities: %+v", len(r.direct.World), d)
	}
	t.Logf("%d instructions, %d inputs, %d entities", r.passed, r.heard, len(r.direct.World))
	if r.passed < 400 || r.heard == 0 && c.stage == rtypegame.Early { // in the other captures no key was pressed
		t.Errorf("%d instructions and %d inputs passed", r.passed, r.heard)
	}
}

func (r *playback) fromServer(d []byte) {
	r.t.Helper()
	known := r.client.initial.known()
	err := r.client.Receive(start, bytes.Clone(d))
	if err != nil && err != codec.ErrDuplicate {
		r.t.Fatalf("server's %x: %v", d, err)
	}
	if n := &r.client.initial; !known && n.known() {
		a := announcement{format: r.client.format, initial: *n}
		send(r.t, r.server, start, hex.EncodeToString(a.append(nil))) // it arrives with the first instruction at the latest
		r.flush()
	}
	if err == nil && (!known || !r.client.initial.hasPart(d, r.client.format.era)) {
		r.direct.Receive(d)
	}
	codectest.Transmit(r.client, start)
	for _, e := range codectest.Drain(r.client) {
		if e.Kind != codec.Received {
			continue
		}
		if err := r.server.Send(start, e.Message); err != nil {
			r.t.Fatalf("server's %x as %x: %v", d, e.Payload, err)
		}
		sent := codectest.Transmit(r.server, start)
		if e.Payload[0] == announced {
			continue
		}
		if r.passed++; len(sent) != 1 || !bytes.Equal(sent[0], d) {
			r.t.Fatalf("server's %x goes on as %x", d, sent)
		}
		r.behind.Receive(sent[0])
	}
}

// flush gives our server's datagrams to the client behind us.
func (r *playback) flush() {
	for _, sent := range codectest.Transmit(r.server, start) {
		r.behind.Receive(sent)
	}
}

func (r *playback) fromClient(d []byte) {
	r.t.Helper()
	if err := r.server.Receive(start, bytes.Clone(d)); err != nil {
		r.t.Fatalf("client's %x: %v", d, err)
	}
	r.flush()
	for _, e := range codectest.Drain(r.server) {
		if e.Kind != codec.Received {
			continue
		}
		if err := r.client.Send(start, e.Message); err != nil {
			r.t.Fatalf("client's %x as %x: %v", d, e.Payload, err)
		}
		if r.heard++; r.client.state != connected {
			continue
		}
		if sent := codectest.Transmit(r.client, start); len(sent) != 1 || !bytes.Equal(sent[0], d) {
			r.t.Fatalf("client's %x goes on as %x", d, sent)
		}
	}
}

// TestCapturesAreDescribed: the describer explains every message of the game's own peers.
func TestCapturesAreDescribed(t *testing.T) {
	for _, c := range captures {
		d := new(describer)
		for i, line := range c.load(t) {
			text, _, err := d.describe(line.fromServer, line.datagram)
			if err != nil || text == "" {
				t.Errorf("%s: datagram %d, %x: %q, %v", c.file, i, line.datagram, text, err)
			}
		}
	}
}

// TestCapturedJoiner: a client that asks again receives the same from a mirror as a joining client from the game's
// server.
func TestCapturedJoiner(t *testing.T) {
	c := captures[2]
	s := admitted(t, Options{Dialect: c.dialect}, startHex)
	r := &playback{t: t, client: dialed(t, Options{Dialect: c.dialect}), server: s, direct: rtypegame.NewClient(c.stage),
		behind: rtypegame.NewClient(c.stage)}
	sent := make(map[string]string) // by subject
	for _, line := range c.load(t)[1:] {
		before := r.passed
		r.fromServer(line.datagram)
		if line.datagram[0] == byte(nextFrame) && r.passed > 1 {
			break
		}
		if r.passed > before {
			sent[about(line.datagram)] = line.Hex
		}
	}
	now := start.Add(2 * minReplayed)
	receive(t, s, now, startHex)
	codectest.Transmit(s, now) // the initialisation
	last, stages := create, make([]int, 4)
	for s.replay.whole {
		s.Advance(now)
		for _, d := range codectest.Transmit(s, now) {
			if op := opcode(d[0]); sent[about(d)] != hex.EncodeToString(d) || op < last {
				t.Errorf("sent %x, which the game's server did not send, or not then", d)
			} else {
				stages[op]++
				last = op
			}
			delete(sent, about(d))
		}
		now = now.Add(portionGap)
	}
	for _, d := range sent {
		t.Errorf("%s is not sent", d)
	}
	if stages[create] < 2 || stages[attach] < 20 || stages[update] < 20 {
		t.Errorf("creates, deletes, attaches, updates: %v", stages)
	}
}

// about returns an instruction of the late game without its data.
func about(d []byte) string { return hex.EncodeToString(d[:min(len(d), 7)]) }
