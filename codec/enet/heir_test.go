package enet

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// beginAnew plays a second client at the address of a session, for a second. The old client speaks, or is dead.
func beginAnew(t *testing.T, isAlive bool) (server, old, next *Conn, took time.Duration) {
	t.Helper()
	now, conns := joined(t)
	server, old = conns[0], conns[1]
	next = New(seeded(3, Options{})).Dial(now, netip.AddrPort{}, codec.Hello{}).(*Conn)
	for at := time.Duration(0); at < time.Second; at += 5 * time.Millisecond {
		now := now.Add(at)
		for _, c := range []*Conn{server, old, next} {
			c.Advance(now)
		}
		for _, c := range []*Conn{old, next} {
			for _, d := range codectest.Transmit(c, now) {
				if c == next || isAlive {
					_ = server.Receive(now, d)
				}
			}
		}
		for _, d := range codectest.Transmit(server, now) {
			_ = next.Receive(now, d)
			if isAlive {
				_ = old.Receive(now, d)
			}
		}
		if took == 0 && server.Successor() != nil {
			took = at
		}
	}
	return server, old, next, took
}

// TestClientBeginsAnew lets a client start at the address of another one's session. It takes the place if the old
// client is silent. Else the old one stays, and the new one is told.
func TestClientBeginsAnew(t *testing.T) {
	server, _, next, took := beginAnew(t, false)
	heir := server.Successor()
	if heir == nil || took > 2*heirPatience || next.state != connected {
		t.Fatalf("the new client has a session: %v, after %v", heir != nil, took)
	}
	got := codectest.Kinds(codectest.Drain(heir))
	if len(got) != 2 || got[0] != codec.Asked || got[1] != codec.Connected {
		t.Errorf("the new session reports %v", got)
	}
	server, old, next, _ := beginAnew(t, true)
	if server.Successor() != nil || server.state != connected || old.state != connected {
		t.Error("a new client ended the session of a live one")
	}
	if next.state != closed {
		t.Error("the new client was not told that the old one stays")
	}
}

// TestSecondPeerProvesFirst has a host connect two peers, of which the second one proves the address first. The first
// one is told that its connection is over. A client that begins anew in the same place is told nothing.
func TestSecondPeerProvesFirst(t *testing.T) {
	for _, isSame := range []bool{false, true} {
		var clients [2]*Conn
		var server *Conn
		for i := range clients {
			s := secrets{ID: uint16(i), ConnectID: [4]byte{byte(i)}}
			if isSame {
				s.ID = 0
			}
			o := New(seeded(uint64(2+i), Options{})).options
			clients[i] = newConn(&o, start, s).dial(codec.Hello{})
			d, _ := clients[i].Transmit(start, nil)
			if i == 0 {
				accepted, _, err := New(seeded(1, Options{})).Accept(start, netip.AddrPort{}, d, nil)
				if err != nil {
					t.Fatal(err)
				}
				server = accepted.(*Conn)
				server.Admit(start, 1)
			} else {
				_ = server.Receive(start, d)
			}
			for _, d := range codectest.Transmit(server, start) {
				_ = clients[i].Receive(start, d)
			}
			codectest.Drain(clients[i])
		}
		for _, d := range codectest.Transmit(clients[1], start) {
			_ = server.Receive(start, d)
		}
		if codectest.Drain(server); server.Successor() == nil {
			t.Fatal("the second peer has no session")
		}
		last := codectest.Transmit(server, start)
		for _, d := range last {
			_ = clients[0].Receive(start, d)
		}
		if isTold := !clients[0].farewell.heard.IsZero(); isTold == isSame || isSame != (len(last) == 0) {
			t.Errorf("same place %v: the first peer is told: %v, by %d datagrams", isSame, isTold, len(last))
		}
	}
}

// TestForgedConnects gives a session Connects of a forger, a thousand a second. They are no sign of life, and neither
// their memory nor their answers grow.
func TestForgedConnects(t *testing.T) {
	now, conns := joined(t)
	server, heard := conns[0], conns[0].heard
	sent := 0
	for i := range 3000 {
		now := now.Add(time.Duration(i) * time.Millisecond)
		forged := newConn(server.options, now, secrets{ConnectID: [4]byte{byte(i), byte(i >> 8)}})
		d, _ := forged.dial(codec.Hello{}).Transmit(now, nil)
		if err := server.Receive(now, d); err == nil {
			t.Fatal("a forged Connect is accepted")
		}
		for range codectest.Transmit(server, now) {
			sent++
		}
		if len(server.heirs.list) > maxHeirs {
			t.Fatalf("%d new clients are remembered", len(server.heirs.list))
		}
	}
	if sent > 3000/int(heirPause/time.Millisecond)+10 {
		t.Errorf("%d answers to 3,000 Connects", sent)
	}
	if server.heard != heard || server.state != connected {
		t.Error("forged Connects changed the session")
	}
}

// TestHeirsHoldNoDatagrams gives a session datagrams in the name of a client that begins anew, packed so that they
// unpack to far more. Their memory does not grow.
func TestHeirsHoldNoDatagrams(t *testing.T) {
	now, conns := joined(t)
	server := conns[0]
	asks := newConn(server.options, now, secrets{ConnectID: [4]byte{1}})
	d, _ := asks.dial(codec.Hello{}).Transmit(now, nil)
	_ = server.Receive(now, d)
	if len(server.heirs.list) != 1 {
		t.Fatalf("%d new clients", len(server.heirs.list))
	}
	heir := server.heirs.list[0]
	packed, _ := new(rangeCoder).pack(make([]byte, 1000))
	h := header{peer: heir.secrets.ID, session: heir.sessionIn, timed: true}
	d = append(h.append(nil), packed...)
	d[0] |= compressedBit
	for range 1000 {
		if err := server.Receive(now, d); err == nil {
			t.Fatal("a datagram without the acknowledgement is accepted")
		}
		if len(heir.in.lent) > 1 {
			t.Fatalf("%d datagrams are held", len(heir.in.lent))
		}
	}
	if len(heir.in.lent) == 0 {
		t.Error("no datagram was unpacked: this test shows nothing")
	}
}
