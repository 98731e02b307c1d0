package rtype

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

var (
	start   = time.Unix(1_700_000_000, 0)
	address = netip.MustParseAddrPort("192.0.2.1:7777")
)

// worldSizes are the data sizes of the document's example in bytes.
var worldSizes = map[string]int{"Position": 4, "Velocity": 2, "Health": 1}

// names8 is the document's example of an initialisation.
const names8 = "000308" + "506f736974696f6e" + "56656c6f63697479" + "4865616c74680000" + "ffff"

// announce8 is names8 as a canonical message without facts of the format.
const announce8 = "f00000" + names8

// wantSent checks the datagrams that c sends, in hexadecimal.
func wantSent(t testing.TB, c codec.Conn, now time.Time, want ...string) {
	t.Helper()
	var got []string
	for _, d := range codectest.Transmit(c, now) {
		got = append(got, hex.EncodeToString(d))
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], " ", "")
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// wantReceived checks that c has received exactly these messages, and returns the kinds of all its other events.
func wantReceived(t testing.TB, c codec.Conn, want ...string) (others []codec.EventKind) {
	t.Helper()
	var got []string
	for _, e := range codectest.Drain(c) {
		if e.Kind == codec.Received {
			got = append(got, hex.EncodeToString(e.Payload))
		} else {
			others = append(others, e.Kind)
		}
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], " ", "")
	}
	if !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
	return others
}

// wantEnd checks that c's last event is Disconnected for a reason.
func wantEnd(t testing.TB, c codec.Conn, want codec.Reason) {
	t.Helper()
	events := codectest.Drain(c)
	if len(events) == 0 || events[len(events)-1].Kind != codec.Disconnected || events[len(events)-1].Reason != want {
		t.Errorf("events %+v, want Disconnected for %v", events, want)
	}
}

// send gives c messages in hexadecimal.
func send(t testing.TB, c codec.Conn, now time.Time, messages ...string) {
	t.Helper()
	for _, m := range messages {
		if err := c.Send(now, codec.Message{Payload: codectest.Unhex(t, m)}); err != nil {
			t.Fatalf("Send of %s: %v", m, err)
		}
	}
}

// receive gives c datagrams in hexadecimal.
func receive(t testing.TB, c codec.Conn, now time.Time, datagrams ...string) {
	t.Helper()
	for _, d := range datagrams {
		if err := c.Receive(now, codectest.Unhex(t, d)); err != nil {
			t.Fatalf("Receive of %s: %v", d, err)
		}
	}
}

// admitted returns the side of a session that faces a client. A datagram in hexadecimal opened it.
func admitted(t testing.TB, o Options, opener string) *server {
	t.Helper()
	conn, reply, err := New(o).Accept(start, address, codectest.Unhex(t, opener), nil)
	if err != nil || len(reply) > 0 {
		t.Fatalf("Accept: reply %x, error %v", reply, err)
	}
	conn.Admit(start, 7)
	got := codectest.Drain(conn)
	starts := opener == "00" && o.Dialect != Document // before the last game's client counts as connected
	if len(got) == 0 || got[0].Kind != codec.Asked || !starts && (len(got) < 2 || got[1].Kind != codec.Connected) {
		t.Fatalf("events %+v", got)
	}
	return conn.(*server)
}

const startHex = "7374617274"

// dialed returns the side of a session that faces a server, after its first Hello.
func dialed(t testing.TB, o Options) *client {
	t.Helper()
	c := New(o).Dial(start, address, codec.Hello{}).(*client)
	if got := codectest.Transmit(c, start); len(got) != 1 {
		t.Fatalf("first sends %x", got)
	}
	return c
}
