package riptide

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

var (
	start   = time.Unix(1_700_000_000, 0)
	address = netip.MustParseAddrPort("192.0.2.1:7777")
)

// pair is a client and a server that exchange datagrams without loss, in virtual time.
type pair struct {
	t              testing.TB
	now            time.Time
	client, server *Conn
	atClient       []codec.Event
	atServer       []codec.Event
}

// newPair connects a client to a server that admits it as client 7.
func newPair(t testing.TB, o Options) *pair {
	t.Helper()
	p := &pair{t: t, now: start}
	proto := New(o)
	p.client = proto.Dial(p.now, address, codec.Hello{Data: []byte("hello")}).(*Conn)
	for _, d := range codectest.Transmit(p.client, p.now) {
		conn, reply, err := proto.Accept(p.now, address, d, nil)
		if err != nil || len(reply) != 0 {
			t.Fatalf("Accept: reply %x, error %v", reply, err)
		}
		p.server = conn.(*Conn)
	}
	p.poll()
	p.server.Admit(p.now, 7)
	p.exchange()
	if p.client.state != connected || p.server.state != connected {
		t.Fatalf("client in state %d, server in state %d", p.client.state, p.server.state)
	}
	return p
}

// exchange transfers datagrams both ways until there are none.
func (p *pair) exchange() {
	for again := true; again; {
		again = false
		for _, d := range codectest.Transmit(p.client, p.now) {
			again = true
			_ = p.server.Receive(p.now, d)
			p.poll()
		}
		for _, d := range codectest.Transmit(p.server, p.now) {
			again = true
			_ = p.client.Receive(p.now, d)
			p.poll()
		}
	}
}

func (p *pair) poll() {
	p.atClient = append(p.atClient, codectest.Drain(p.client)...)
	if p.server != nil {
		p.atServer = append(p.atServer, codectest.Drain(p.server)...)
	}
}

// hexOf returns d in hexadecimal.
func hexOf(d []byte) string { return hex.EncodeToString(d) }

// eachVersion runs a test for each dialect.
func eachVersion(t *testing.T, test func(t *testing.T, v Version)) {
	for _, v := range []Version{V22, V20} {
		t.Run(names[v], func(t *testing.T) { test(t, v) })
	}
}

// modesOf returns the modes of dialect v.
func modesOf(v Version) []codec.Mode {
	if v == V20 {
		return []codec.Mode{codec.Unreliable, codec.Reliable}
	}
	return []codec.Mode{codec.Unreliable, codec.Reliable, codec.Notify}
}

func TestPairTalks(t *testing.T) { eachVersion(t, testPairTalks) }

func testPairTalks(t *testing.T, v Version) {
	p := newPair(t, Options{Version: v})
	for i, mode := range modesOf(v) {
		m := codec.Message{Payload: []byte("payload of some length"), Mode: mode, ID: 300, HasID: mode != codec.Notify}
		for _, side := range []struct {
			from *Conn
			to   *[]codec.Event
		}{{p.client, &p.atServer}, {p.server, &p.atClient}} {
			p.atClient, p.atServer = nil, nil
			if err := side.from.Send(p.now, m); err != nil {
				t.Fatal(err)
			}
			p.exchange()
			if len(*side.to) != 1 {
				t.Fatalf("case %d: events %v", i, *side.to)
			}
			got := (*side.to)[0].Message
			if got.Mode != mode || !bytes.Equal(got.Payload, m.Payload) || got.ID != 300 && got.HasID {
				t.Fatalf("got %+v, want %+v", got, m)
			}
		}
	}
	if q := p.client.Stats().Queued + p.server.Stats().Queued; q != 0 {
		t.Errorf("%d bytes queued after everything was acknowledged", q)
	}
}
