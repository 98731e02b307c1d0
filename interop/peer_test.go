//go:build interop

package interop_test

import (
	"encoding/json"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// peer is an independent client or server. It does as it is commanded and tells what happens to it; the scripts under
// peers/ do so by lines of JSON.
type peer struct {
	name   string
	port   string // of a server
	events chan event
	passed []event // while others were awaited, oldest first
	do     func(o order) error
	kill   func() error // ends it without a goodbye; only of a script
}

// order is what a peer shall do.
type order struct {
	Do       string  `json:"do"`               // send, leave; a Riptide client can notify, its server kick
	Client   *uint16 `json:"client,omitempty"` // to kick
	ID       uint16  `json:"id"`               // of a Riptide message
	Reliable bool    `json:"reliable"`         // of a message
	Payload  string  `json:"payload"`          // of a message, a notice or a kick, in hex
}

// event is what happened to a peer.
type event struct {
	// Event is listening, joined, left, asked or received for a server; connected, refused, disconnected, received,
	// ponged, notified or, of other clients, joined and left for a client.
	Event    string
	Client   uint16 // Riptide's client ID
	ID       uint16 // of a Riptide message
	Reliable bool   // whether a Riptide message is
	Reason   int    // of a Riptide refusal or goodbye, as on the wire
	Payload  string // in hex
}

// startServer runs a server script on a free port.
func startServer(t *testing.T, in *runtime, script string, args ...string) *peer {
	t.Helper()
	p := startScript(t, in, script, freePort(t), args...)
	p.awaitWithin(t, "listening", 3*patience) // some take long to start on a busy machine
	return p
}

// startScript runs one of the scripts under peers/; its first argument is a port.
func startScript(t *testing.T, in *runtime, script, port string, args ...string) *peer {
	t.Helper()
	dir := in.dir(t)
	p := &peer{name: script, port: port, events: make(chan event, 10000)}
	heard := func(line []byte) {
		var e event
		if json.Unmarshal(line, &e) == nil { // libraries write what they like
			p.events <- e
		}
	}
	env, line := in.line(dir)
	line = append(line, filepath.Join("peers", script), port)
	running := start(t, env, heard, append(line, args...)...)
	p.kill = running.cmd.Process.Kill
	commands := json.NewEncoder(running.stdin)
	p.do = func(o order) error { return commands.Encode(o) }
	return p
}

// order makes a peer do something.
func (p *peer) order(t *testing.T, o order) {
	t.Helper()
	if err := p.do(o); err != nil {
		t.Fatalf("%s: %s: %v", p.name, o.Do, err)
	}
}

// await returns the oldest event of a kind that has not been returned before.
func (p *peer) await(t *testing.T, kind string) event {
	t.Helper()
	return p.awaitWithin(t, kind, patience)
}

// awaitWithin is await with another patience.
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

// freePort returns a port that nobody uses now, neither for UDP nor for TCP, and that no system picks for a socket that
// asks for any.
func freePort(t *testing.T) string {
	t.Helper()
	for range 10 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		conn, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		defer conn.Close()
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue // another's, for TCP
		}
		defer listener.Close()
		return portOf(t, address)
	}
	t.Fatal("no port is free for both UDP and TCP")
	return ""
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
