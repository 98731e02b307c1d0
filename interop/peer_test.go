//go:build interop

package interop_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"tidegate/internal/testkit/freeport"
)

// peer is an independent client or server. It obeys orders and reports events. The scripts under peers/ use lines of
// JSON for both.
type peer struct {
	name   string
	port   string // of a server
	events chan event
	passed []event // events passed over by await, oldest first
	do     func(o order) error
	kill   func() error // ends a script without a goodbye
	pid    int          // of a script's process
}

// order is a command to a peer.
type order struct {
	// Do is send or leave. A Riptide client also has notify, its server kick, and a stock client stamp.
	Do       string  `json:"do"`
	Client   *uint16 `json:"client,omitempty"` // the client to kick
	ID       uint16  `json:"id"`               // of a Riptide message
	Reliable bool    `json:"reliable"`         // of a message
	Payload  string  `json:"payload"`          // of a message, a notify message, a kick or an ENet goodbye, in hex
	Channel  int     `json:"channel"`          // of an ENet message
	Mode     string  `json:"mode,omitempty"`   // of an ENet message: reliable, unreliable or unsequenced

	// Of the peers of TestBeside.
	Count    int    `json:"count,omitempty"`    // messages of a burst, or players who join
	First    int    `json:"first,omitempty"`    // number of the first message
	Size     int    `json:"size,omitempty"`     // bytes of each message
	Priority string `json:"priority,omitempty"` // of a stock peer: IMMEDIATE, HIGH, MEDIUM or LOW
	Player   int    `json:"player,omitempty"`   // in a process with some
	Pause    int    `json:"pause,omitempty"`    // milliseconds
}

// event is a peer's report.
type event struct {
	// Event is, for a server: listening, joined, left, asked or received. For a client: connected, refused,
	// disconnected, received, ponged, notified, and joined and left for other clients. Stock peers also have stamped.
	Event    string
	Client   uint16 // Riptide's client ID
	ID       uint16 // of a Riptide message
	Reliable bool   // of a Riptide message
	Reason   int    // of a Riptide refusal or goodbye, as on the wire
	Payload  string // in hex
	Age      int    // of a message with a stock peer's time, in milliseconds
	Channel  int    // of an ENet message
	Mode     string // of an ENet message; Godot does not tell it

	// Of the peers of TestBeside, which tell only the first bytes of a message. They also have begins, before a
	// client's first datagram, gone, for another player, and figure.
	Size   int    // of a message
	Name   string // of a figure
	Figure float64
}

// startServer runs a server script on a free port.
func startServer(t *testing.T, in *runtime, script string, args ...string) *peer {
	t.Helper()
	return startServerAt(t, in, script, freePort(t), args...)
}

// startServerAt is startServer at a port, or at HOST:PORT.
func startServerAt(t *testing.T, in *runtime, script, address string, args ...string) *peer {
	t.Helper()
	p := startScript(t, in, script, address, args...)
	p.awaitWithin(t, "listening", 3*patience) // some start slowly on a busy machine
	return p
}

// startScript runs a script under peers/. Its first argument is a port, or HOST:PORT if the script knows that.
func startScript(t *testing.T, in *runtime, script, port string, args ...string) *peer {
	t.Helper()
	dir := in.dir(t)
	p := &peer{name: script, port: portOf(t, at(port)), events: make(chan event, 10000)}
	heard := func(line []byte) {
		var e event
		if json.Unmarshal(line, &e) == nil { // libraries may print other lines
			p.events <- e
		}
	}
	env, line := in.line(dir)
	if !in.compiled {
		path, err := filepath.Abs(filepath.Join("peers", script))
		if err != nil {
			t.Fatal(err)
		}
		line = append(line, path)
	}
	running := start(t, env, heard, slices.Concat(line, []string{port}, args)...)
	p.kill, p.pid = running.cmd.Process.Kill, running.cmd.Process.Pid
	commands := json.NewEncoder(running.stdin)
	p.do = func(o order) error { return commands.Encode(o) }
	return p
}

// order sends an order to a peer.
func (p *peer) order(t *testing.T, o order) {
	t.Helper()
	if err := p.do(o); err != nil {
		t.Fatalf("%s: %s: %v", p.name, o.Do, err)
	}
}

// await returns the oldest unreturned event of a kind.
func (p *peer) await(t *testing.T, kind string) event {
	t.Helper()
	return p.awaitWithin(t, kind, patience)
}

// awaitWithin is await with another time limit.
func (p *peer) awaitWithin(t *testing.T, kind string, patience time.Duration) event {
	t.Helper()
	if i := slices.IndexFunc(p.passed, func(e event) bool { return e.Event == kind }); i >= 0 {
		e := p.passed[i]
		p.passed = slices.Delete(p.passed, i, i+1)
		return e
	}
	late := time.After(patience)
	for {
		select {
		case e := <-p.events:
			if e.Event == kind {
				return e
			}
			p.passed = append(p.passed, e)
		case <-late:
			t.Fatalf("%s: no %q after %s, but %s", p.name, kind, patience, kinds(p.passed))
		}
	}
}

func kinds(events []event) []string {
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Event)
	}
	return kinds
}

// freePort returns a port that is free for UDP and TCP.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(int(freeport.Loopback(t).Port()))
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
