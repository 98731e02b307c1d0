package rtype

import (
	"fmt"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// chain is a client and a server of the game with a proxy between them: four Conns. Canonical messages join the two in
// the middle. No datagram is lost.
type chain struct {
	t        testing.TB
	conns    [4]codec.Conn // client; the proxy's sides towards the client and the server; server
	atClient []string
	atServer []string
	unfit    int // messages that have no form on the other side of the proxy
}

// newChain makes a chain from the dialects of client and server, and those of the proxy towards them.
func newChain(t testing.TB, near, far, proxyNear, proxyFar Dialect) *chain {
	dial := func(d Dialect) codec.Conn { return dialed(t, Options{Dialect: d, Components: worldSizes}) }
	hello := startHex
	if near == Document {
		hello = "01"
	}
	server := accept(&New(Options{Components: worldSizes}).options, start, formats[far], nil, secret{})
	server.Admit(start, 0)
	return &chain{t: t, conns: [4]codec.Conn{
		dial(near), admitted(t, Options{Dialect: proxyNear, Components: worldSizes}, hello), dial(proxyFar), server,
	}}
}

// run transfers all datagrams and messages.
func (c *chain) run() {
	for again := true; again; {
		again = false
		for i, conn := range c.conns {
			for _, d := range codectest.Transmit(conn, start) {
				again = true
				if err := c.conns[i^1].Receive(start, d); err != nil {
					c.t.Errorf("conn %d: %x: %v", i^1, d, err)
				}
				c.pass(i ^ 1)
			}
			c.pass(i)
		}
	}
}

// pass takes the events of one Conn, and sends its messages to the other side of the proxy.
func (c *chain) pass(i int) {
	for _, e := range codectest.Drain(c.conns[i]) {
		if e.Kind != codec.Received {
			continue
		}
		switch said := fmt.Sprintf("%x", e.Payload); i {
		case 0:
			c.atClient = append(c.atClient, said)
		case 3:
			c.atServer = append(c.atServer, said)
		default:
			if err := c.conns[3-i].Send(start, e.Message); err != nil {
				c.unfit++
			}
		}
	}
}

// TestDialectsCross: a server of each dialect reaches a client of each. An automatic proxy finds out the dialects.
func TestDialectsCross(t *testing.T) {
	for _, far := range []Dialect{Document, Game16, Game32} {
		for _, near := range []Dialect{Document, Game16, Game32} {
			checkCrossing(t, near, far, near, far)
			checkCrossing(t, near, far, near, Auto)
		}
		checkCrossing(t, far, far, Auto, Auto)
	}
}

func checkCrossing(t *testing.T, near, far, proxyNear, proxyFar Dialect) {
	t.Helper()
	what := fmt.Sprintf("%v to %v through %v and %v", names[near], names[far], names[proxyNear], names[proxyFar])
	c := newChain(t, near, far, proxyNear, proxyFar)
	send(t, c.conns[3], start, announce8)
	send(t, c.conns[3], start, exampleMessages...)
	c.run()
	got := slices.DeleteFunc(c.atClient, func(said string) bool { return said[:2] == "f0" })
	want := make([]string, len(exampleMessages))
	for i, m := range exampleMessages {
		want[i] = fmt.Sprintf("%x", codectest.Unhex(t, m))
	}
	if !slices.Equal(got, want) || c.unfit > 0 {
		t.Errorf("%s: client received %q, want %q; %d unfit", what, got, want, c.unfit)
	}
	if known := &c.conns[0].(*client).initial; !known.equal(&exampleNames) {
		t.Errorf("%s: client knows other components", what)
	}
	checkWayBack(t, c, what, near, far)
}

// checkWayBack sends every input that the client's dialect has. Keys and requests are different inputs, and the
// document has no updates. Such inputs do not cross, and are counted.
func checkWayBack(t *testing.T, c *chain, what string, near, far Dialect) {
	t.Helper()
	c.atServer, c.unfit = nil, 0
	say := map[Dialect][]string{
		Document: {"03"}, Game16: {"03", exampleMessages[2]}, Game32: {exampleMessages[2]}, GameLast: {exampleMessages[2]},
	}
	send(t, c.conns[0], start, say[near]...)
	c.run()
	var want []string
	for _, m := range say[near] {
		if slices.Contains(say[far], m) {
			want = append(want, fmt.Sprintf("%x", codectest.Unhex(t, m)))
		}
	}
	if !slices.Equal(c.atServer, want) || c.unfit != len(say[near])-len(want) {
		t.Errorf("%s: server received %q, want %q; %d unfit", what, c.atServer, want, c.unfit)
	}
}
