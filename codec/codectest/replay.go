package codectest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"tidegate/codec"
)

// replayStart is the start of a recording in the replay's virtual time.
var replayStart = time.Unix(1_700_000_000, 0)

// Replay plays a capture of real peers to a protocol. Our server side receives the real client's datagrams, our client
// side the real server's. No datagram of a real peer may count as malformed, and the Spec's facts must hold. Run plays
// a codec against itself, so it cannot see a mistake that both ends share. Each codec's own tests check whether our
// sides answer as the real ones did.
func Replay(t testing.TB, c Capture, p codec.Protocol) {
	t.Helper()
	for _, client := range c.Clients() {
		replayClient(t, &c, client, p)
		conn := p.Dial(replayStart, serverAddr, codec.Hello{Identity: 1})
		for _, l := range c.From(client, "server") {
			play(t, &c, conn, l)
		}
	}
}

// replayClient plays the datagrams of one client and its server.
func replayClient(t testing.TB, c *Capture, client int, p codec.Protocol) {
	t.Helper()
	var conn codec.Conn
	for i, l := range c.From(client, "client") {
		spec := p.Spec()
		if first := l.Datagram[0]; !spec.FirstBytes.IsEmpty() && !spec.FirstBytes.Has(first) {
			t.Errorf("%s: a client's datagram begins with %#x, which Spec.FirstBytes lacks", c.File, first)
		}
		switch sniffed := p.Sniff(l.Datagram); {
		case conn != nil:
			play(t, c, conn, l)
		case i == 0 && !sniffed:
			t.Errorf("%s: Sniff does not take a client's first datagram %x", c.File, l.Datagram)
		case sniffed:
			var err error
			conn, _, err = p.Accept(replayStart.Add(l.At()), clientAddr, bytes.Clone(l.Datagram), nil)
			if errors.Is(err, codec.ErrMalformed) {
				t.Errorf("%s: Accept of %x: %v", c.File, l.Datagram, err)
			}
			if conn != nil {
				conn.Admit(replayStart.Add(l.At()), uint16(client+1))
				Drain(conn)
			}
		}
	}
}

// play gives a Conn one captured datagram.
func play(t testing.TB, c *Capture, conn codec.Conn, l Line) {
	t.Helper()
	now := replayStart.Add(l.At())
	if err := conn.Receive(now, bytes.Clone(l.Datagram)); errors.Is(err, codec.ErrMalformed) {
		t.Errorf("%s: after %v, Receive of %x from the %s: %v", c.File, l.At(), l.Datagram, l.From, err)
	}
	Drain(conn)
	Transmit(conn, now)
}
