package raknet

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestAcceptAnswersPings(t *testing.T) {
	for _, sized := range []bool{false, true} {
		p := New(Options{GUID: 99, Pong: make([]byte, 1000), SizedPong: sized})
		conn, reply, err := p.Accept(linkStart, linkClient, AppendPing(nil, 1234, 5), nil)
		if conn != nil || err != nil {
			t.Fatalf("Accept = %v, %v", conn, err)
		}
		pong, err := ParsePong(reply)
		if err != nil || pong.Time != 1234 || pong.GUID != 99 || len(pong.Data) != maxPong {
			t.Errorf("pong %d, %d with %d bytes: %v", pong.Time, pong.GUID, len(pong.Data), err)
		}
	}
	ping := AppendPing(nil, 1234, 5)
	_, reply, err := New(Options{}).Accept(linkStart, linkClient, ping[:minPingSize], nil)
	if len(reply) > 0 || !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("a ping without GUID is answered by %d bytes, %v", len(reply), err)
	}
}

func TestAcceptAnswersProbes(t *testing.T) {
	for _, test := range []struct {
		what    string
		version uint8
		length  int
		mtu     uint16 // 0: not granted
		err     error
	}{
		{"stock", 6, 1464, 1492, nil},
		{"bedrock, narrower", 11, 1172, 1200, nil},
		{"over every MTU", 6, 2000, 1492, nil},
		{"the least", 6, 372, 400, nil},
		{"less than the least", 6, 371, 0, codec.ErrMalformed},
		{"not even the version", 6, 17, 0, codec.ErrMalformed},
		{"unknown version", 7, 1464, 0, codec.ErrRefused},
	} {
		p := New(Options{})
		request := openConnectionRequest1{version: test.version, length: max(test.length, minRequest1Size)}
		_, reply, err := p.Accept(linkStart, linkClient, request.append(nil)[:test.length], nil)
		if !errors.Is(err, test.err) {
			t.Errorf("%s: error %v, want %v", test.what, err, test.err)
		}
		var answer openConnectionReply1
		if parseErr := answer.parse(reply); (parseErr == nil) != (test.mtu != 0) || answer.mtu != test.mtu {
			t.Errorf("%s: MTU %d granted, want %d (%v)", test.what, answer.mtu, test.mtu, parseErr)
		}
		if len(reply) > test.length {
			t.Errorf("%s: %d bytes are answered by %d", test.what, test.length, len(reply))
		}
		if want := errors.Is(test.err, codec.ErrRefused); want != (new(incompatible).parse(reply) == nil) {
			t.Errorf("%s: answer % x, incompatible: %v", test.what, reply, want)
		}
	}
}

func TestAcceptDemandsTheCookie(t *testing.T) {
	p := New(Options{Seed: [32]byte{1}})
	cookieFor := func(p *Protocol, at time.Time, from netip.AddrPort) uint32 {
		probe := openConnectionRequest1{version: 11, length: 1464}
		_, reply, _ := p.Accept(at, from, probe.append(nil), nil)
		var answer openConnectionReply1
		if err := answer.parse(reply); err != nil {
			t.Fatal(err)
		}
		return answer.cookie
	}
	otherPort := netip.AddrPortFrom(linkClient.Addr(), linkClient.Port()+1)
	for _, test := range []struct {
		what   string
		cookie uint32
		ok     bool
	}{
		{"given", cookieFor(p, linkStart, linkClient), true},
		{"given a life ago", cookieFor(p, linkStart.Add(-cookieLife), linkClient), true},
		{"given two lives ago", cookieFor(p, linkStart.Add(-2*cookieLife), linkClient), false},
		{"given to another port", cookieFor(p, linkStart, otherPort), false},
		{"given by another server", cookieFor(New(Options{Seed: [32]byte{2}}), linkStart, linkClient), false},
		{"with another version", cookieFor(p, linkStart, linkClient) ^ 1, false},
		{"with another round", cookieFor(p, linkStart, linkClient) ^ 1<<roundShift, false},
		{"guessed", 12345, false},
	} {
		request := openConnectionRequest2{
			hasCookie: true, cookie: test.cookie, server: address{AddrPort: linkServer}, mtu: 1492, guid: 7,
		}
		conn, reply, err := p.Accept(linkStart, linkClient, request.append(nil), nil)
		if (conn != nil) != test.ok || (err == nil) != test.ok || len(reply) > 0 {
			t.Errorf("cookie %s: connection %v, %d bytes, %v; want ok %v", test.what, conn != nil, len(reply), err, test.ok)
		}
		if !test.ok && !errors.Is(err, codec.ErrRefused) {
			t.Errorf("cookie %s: %v, want ErrRefused", test.what, err)
		}
	}
}

func TestAcceptClampsTheMTU(t *testing.T) {
	p := New(Options{Cookies: CookiesNone})
	for _, test := range []struct{ asked, want uint16 }{{65535, 1492}, {1, 400}, {0, 400}, {1200, 1200}} {
		request := openConnectionRequest2{server: address{AddrPort: linkServer}, mtu: test.asked, guid: 7}
		conn, _, err := p.Accept(linkStart, linkClient, request.append(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		wire, _ := conn.Transmit(linkStart, nil)
		var reply openConnectionReply2
		if err := reply.parse(wire); err != nil || reply.mtu != test.want || reply.client.AddrPort != linkClient {
			t.Errorf("MTU %d asked for: %+v, %v, want %d", test.asked, reply, err, test.want)
		}
	}
}

func TestRefuse(t *testing.T) {
	p := New(Options{GUID: 5})
	request := openConnectionRequest2{hasCookie: true, server: address{AddrPort: linkServer}, mtu: 1492, guid: 7}
	for _, test := range []struct {
		reason codec.Reason
		id     byte
	}{
		{codec.ServerFull, idNoFreeConnections}, {codec.Banned, idConnectionBanned}, {codec.TooSoon, idRecentlyConnected},
		{codec.Incompatible, idIncompatibleVersion}, {codec.InvalidPassword, idNoFreeConnections},
		{codec.ServerStopped, idNoFreeConnections},
	} {
		reply := p.Refuse(request.append(nil), nil, test.reason)
		if id, ok := offlineID(reply); !ok || id != test.id {
			t.Errorf("%v: %#x, want %#x", test.reason, id, test.id)
		}
	}
	if reply := p.Refuse(AppendPing(nil, 1, 2), nil, codec.ServerFull); len(reply) > 0 {
		t.Errorf("a ping is refused by %d bytes", len(reply))
	}
}

func TestOrderedOnly(t *testing.T) {
	modes := New(Options{OrderedOnly: true}).Spec().Modes
	if want := codec.ModesOf(codec.Unreliable, codec.UnreliableSequenced, codec.ReliableOrdered); modes != want {
		t.Errorf("modes %b, want %b", modes, want)
	}
}

func TestDialDerivesGUIDs(t *testing.T) {
	p := New(Options{Seed: [32]byte{1}})
	guids := make(map[uint64]bool)
	for i := range 10 {
		c := p.Dial(linkStart.Add(time.Duration(i)), linkServer, codec.Hello{}).(*Conn)
		guids[c.guid] = true
	}
	if len(guids) != 10 || guids[0] {
		t.Errorf("10 connections have %d GUIDs, or 0 among them", len(guids))
	}
}

// TestDialRemembersVersion: the second time, a server is asked with the version that it named the first time, from any
// loop. Another server is asked with ours.
func TestDialRemembersVersion(t *testing.T) {
	p := New(Options{DialVersion: 6})
	first := newLinkOf(t, p)
	_ = first.client.Receive(first.now, (&incompatible{version: 11, guid: 1}).append(nil))
	other := netip.AddrPortFrom(first.client.peer.Addr(), first.client.peer.Port()+1)
	for server, want := range map[netip.AddrPort]uint8{first.client.peer: 11, other: 6} {
		c := p.ForLoop().(*Protocol).Dial(first.now, server, codec.Hello{Identity: 78})
		var request openConnectionRequest1
		wire, _ := c.Transmit(first.now, nil)
		if err := request.parse(wire); err != nil {
			t.Fatal(err)
		}
		if request.version != want {
			t.Errorf("%s: asked with version %d, want %d", server, request.version, want)
		}
	}
}

// TestServerVersionsAreBounded has more servers than are remembered.
func TestServerVersionsAreBounded(t *testing.T) {
	var v serverVersions
	for port := range uint16(3 * maxServerVersions / 2) {
		v.grant(netip.AddrPortFrom(netip.IPv4Unspecified(), port), 11)
	}
	if n := len(*v.of.Load()); n > maxServerVersions {
		t.Errorf("%d servers are remembered, want at most %d", n, maxServerVersions)
	}
}

// TestCapturesAreWellFormed: our sides take no datagram of a real peer for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range captures(t) {
		o := Options{Cookies: CookiesNone}
		for _, client := range c.Clients() {
			if hasCookie(&c, client) {
				o.Cookies = CookiesPrivate // their cookies are not private
			}
		}
		codectest.Replay(t, c.Capture, New(o))
	}
}

// TestFirstBytes checks that most bytes begin no datagram of a client.
func TestFirstBytes(t *testing.T) {
	p := New(Options{})
	for _, b := range []byte{0x01, 0x02, 0x05, 0x07} {
		if !p.spec.Openings.Has(b) {
			t.Errorf("Openings.Has(%#x) is false", b)
		}
	}
	for _, b := range []byte{0x00, 0x03, 0x06, 0x08, 0x1c, 0x7f} {
		if p.spec.FirstBytes.Has(b) {
			t.Errorf("FirstBytes.Has(%#x) is true", b)
		}
	}
	for b := 0x80; b <= 0xff; b++ { // of a connection
		if p.spec.Openings.Has(byte(b)) {
			t.Errorf("Openings.Has(%#x) is true", b)
		}
	}
}
