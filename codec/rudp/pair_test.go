package rudp

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

const ms = time.Millisecond

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

// newPair connects a client to a server that admits it.
func newPair(t testing.TB, o Options) *pair {
	t.Helper()
	p := &pair{t: t, now: start}
	proto := New(o)
	p.client = proto.Dial(p.now, address, codec.Hello{}).(*Conn)
	conn, reply, err := proto.Accept(p.now, address, one(t, p.client, p.now), nil)
	if err != nil || len(reply) != 0 {
		t.Fatalf("Accept: reply %x, error %v", reply, err)
	}
	p.server = conn.(*Conn)
	p.server.Admit(p.now, 7)
	p.exchange()
	p.step()
	if p.client.state != connected || p.server.state != connected {
		t.Fatalf("client in state %d, server in state %d", p.client.state, p.server.state)
	}
	return p
}

// step advances by one period.
func (p *pair) step() {
	p.now = p.now.Add(p.server.period)
	p.client.Advance(p.now)
	p.server.Advance(p.now)
	p.exchange()
}

// exchange transfers the due datagrams both ways.
func (p *pair) exchange() {
	up, down := codectest.Transmit(p.client, p.now), codectest.Transmit(p.server, p.now)
	for _, d := range up {
		_ = p.server.Receive(p.now, d)
	}
	for _, d := range down {
		_ = p.client.Receive(p.now, d)
	}
	p.atClient = append(p.atClient, codectest.Drain(p.client)...)
	p.atServer = append(p.atServer, codectest.Drain(p.server)...)
}

// one returns the only datagram that c wants to send.
func one(t testing.TB, c codec.Conn, now time.Time) []byte {
	t.Helper()
	all := codectest.Transmit(c, now)
	if len(all) != 1 {
		t.Fatalf("%d datagrams, want 1: %x", len(all), all)
	}
	return all[0]
}

// hexOf returns d in hexadecimal.
func hexOf(d []byte) string { return hex.EncodeToString(d) }
