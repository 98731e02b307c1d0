package raknet

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// request2Of returns a second request with the cookie of a new client.
func request2Of(p *Protocol, now time.Time, guid uint64) []byte {
	if p.o.Cookies == CookiesOffloaded { // another host gives the cookies
		return requestWith(p, uint32(minuteOf(now))<<4|10, guid)
	}
	return requestWith(p, p.giveCookie(now, linkClient, 11, 0), guid)
}

func requestWith(p *Protocol, cookie uint32, guid uint64) []byte {
	m := openConnectionRequest2{
		hasCookie: p.o.Cookies != CookiesNone, cookie: cookie, server: address{AddrPort: linkServer}, mtu: 1492, guid: guid,
	}
	return m.append(nil)
}

// TestConnectionOutcome asks for a connection from an address that already has one
// (docs/protocols/raknet/join.md#connection-outcome).
func TestConnectionOutcome(t *testing.T) {
	const same, other, noAnswer = 77, 78, 0xff
	for _, test := range []struct {
		what    string
		cookies CookieMode
		reached phase
		anew    bool // its cookie is the connection's answer
		left    bool // the connected client has said goodbye
		guid    uint64
		id      byte // ID of the answer; 0: none, and the connection is over; noAnswer: none, and it goes on
	}{
		{"the same client, which asked twice", CookiesPrivate, halfOpen, true, false, same, idOpenConnectionReply2},
		{"the same client, whose answer was lost", CookiesPrivate, asked, false, false, same, idOpenConnectionReply2},
		{"the same client, whose connection never became complete", CookiesPrivate, asked, true, false, same, 0},
		{"published cookie, never complete", CookiesActive, asked, true, false, same, 0},
		{"another client in the place of a half-open one", CookiesPrivate, asked, true, false, other, 0},
		{"a late copy of the request that opened it", CookiesPrivate, connected, false, false, same, idAlreadyConnected},
		{"a late request of a client before it", CookiesPrivate, connected, false, false, other, idAlreadyConnected},
		{"the same client, begun anew", CookiesPrivate, connected, true, false, same, 0},
		{"another client in its place", CookiesPrivate, connected, true, false, other, 0},
		{"published cookie, a late copy", CookiesActive, connected, false, false, same, idAlreadyConnected},
		{"published cookie, begun anew", CookiesActive, connected, true, false, same, 0},
		{"without proof, half open", CookiesNone, asked, false, false, same, idOpenConnectionReply2},
		{"without proof, another client on a half-open one", CookiesNone, asked, false, false, other, idAlreadyConnected},
		{"without proof, the same client", CookiesNone, connected, true, false, same, idAlreadyConnected},
		{"without proof, another client", CookiesNone, connected, true, false, other, idAlreadyConnected},
		{"after a goodbye, begun anew", CookiesPrivate, connected, true, true, same, 0},
		{"after a goodbye, a late copy", CookiesPrivate, connected, false, true, same, noAnswer},
		{"after a goodbye, in the same minute", CookiesOffloaded, connected, false, true, same, 0},
		{"after a goodbye, without proof", CookiesNone, connected, true, true, same, noAnswer},
	} {
		l := newLink(t, Options{Cookies: test.cookies})
		l.drop = func(toServer bool, datagram []byte) bool {
			return test.reached == halfOpen && toServer && datagram[0]&bitValid != 0
		}
		l.exchange()
		if test.reached == connected {
			l.server.Admit(l.now, 1)
		}
		l.wait(50 * ms) // all is acknowledged
		if l.server.phase != test.reached {
			t.Fatalf("%s: in phase %v", test.what, l.server.phase)
		}
		request := request2Of(l.p, l.now, test.guid)
		if test.anew {
			request = requestWith(l.p, askAgain(t, l).cookie, test.guid)
		}
		if test.left {
			_ = l.server.Receive(l.now, []byte{idDisconnectionNotification})
			l.carry(l.server, false)
		}
		if err := l.server.Receive(l.now, request); (err != nil) != (test.id == noAnswer) {
			t.Errorf("%s: %v", test.what, err)
		}
		l.poll()
		reply, ok := l.server.Transmit(l.now, nil)
		if id, _ := offlineID(reply); ok != (test.id != 0 && test.id != noAnswer) || ok && id != test.id {
			t.Errorf("%s: answered by %#x, want %#x", test.what, id, test.id)
		}
		if over := has(l.toServer, codec.Disconnected); over != (test.id == 0) {
			t.Errorf("%s: over = %v", test.what, over)
		}
	}
}

// askAgain sends the server's connection a first request, and returns its answer.
func askAgain(t *testing.T, l *link) openConnectionReply1 {
	t.Helper()
	first := openConnectionRequest1{version: 11, length: 1464}
	if err := l.server.Receive(l.now, first.append(nil)); err != nil {
		t.Fatal(err)
	}
	wire, _ := l.server.Transmit(l.now, nil)
	var reply openConnectionReply1
	if err := reply.parse(wire); err != nil {
		t.Fatal(err)
	}
	return reply
}

// TestClientsFollowEachOther opens each connection with the cookie that the previous one gave. A request that opened a
// connection never ends it, not even as a late copy.
func TestClientsFollowEachOther(t *testing.T) {
	l := newConnected(t, Options{})
	for guid := uint64(100); guid < 108; guid++ {
		request := requestWith(l.p, askAgain(t, l).cookie, guid)
		_ = l.server.Receive(l.now, request)
		l.poll()
		ending(t, l.toServer)
		conn, _, err := l.p.Accept(l.now, linkClient, request, nil)
		if err != nil {
			t.Fatalf("client %d: %v", guid, err)
		}
		l.server, l.toServer = conn.(*Conn), nil
		l.client = l.p.Dial(l.now, linkServer, codec.Hello{Identity: guid}).(*Conn)
		l.client.attempt.reply, l.client.attempt.Replied = openConnectionReply1{mtu: 1492}, true
		connect(t, l)
		_ = l.server.Receive(l.now, request)
		if l.poll(); has(l.toServer, codec.Disconnected) {
			t.Fatalf("client %d: a late copy of its request ended its connection", guid)
		}
		_, _ = l.server.Transmit(l.now, nil) // the answer that it is connected already
	}
}

// TestOffloadedOutcome: if a front proxy gives the cookies, a cookie of a later minute than the connection's is proof.
func TestOffloadedOutcome(t *testing.T) {
	p := New(Options{Cookies: CookiesOffloadedPSK, CookieSecret: [32]byte{7}})
	l := newLinkOf(t, p)
	l.client = p.Dial(l.now, linkServer, codec.Hello{Identity: 77, From: place(linkClient)}).(*Conn)
	connect(t, l)
	ask := func() byte {
		_ = l.server.Receive(l.now, requestWith(p, p.shared.give(l.now, linkClient, 11), 77))
		l.poll()
		reply, _ := l.server.Transmit(l.now, nil)
		id, _ := offlineID(reply)
		return id
	}
	if id := ask(); id != idAlreadyConnected {
		t.Errorf("in the same minute: answered by %#x, want already connected", id)
	}
	l.wait(time.Minute)
	if id := ask(); id != 0 || !has(l.toServer, codec.Disconnected) {
		t.Errorf("a minute later: answered by %#x, saw %v; want the end", id, codectest.Kinds(l.toServer))
	}
}
