package raknet

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

const gameGUID = 0x660c48509a6ae

// newAhead returns a link with a client that was dialed ahead and a server that defers it.
func newAhead(t *testing.T, o Options) *link {
	l := newLink(t, o)
	l.client = l.p.DialAhead(l.now, linkServer, codec.Hello{Identity: 77}).(*Conn)
	l.defers = true
	return l
}

// offline returns a side's offline messages with an identifier, until the side is silent.
func offline(t *testing.T, l *link, from *Conn) (all [][]byte) {
	t.Helper()
	for b, ok := from.Transmit(l.now, nil); ok; b, ok = from.Transmit(l.now, nil) {
		if _, ok := offlineID(b); !ok {
			t.Errorf("%x is no offline message", b)
		}
		all = append(all, b)
	}
	return all
}

// TestDeferredClientIsRefused: for each reason, a client without a grant gets one offline refusal, in the name of the
// refusing server. The client reads nothing else at that point.
func TestDeferredClientIsRefused(t *testing.T) {
	heard := map[codec.Reason]codec.Reason{
		codec.AlreadyConnected: codec.AlreadyConnected, codec.ServerFull: codec.ServerFull, codec.Banned: codec.Banned,
		codec.Incompatible: codec.Incompatible,
	}
	for reason := range codec.Reason(codec.ReasonCount) {
		l := newAhead(t, Options{})
		l.exchange()
		l.server.Close(l.now, codec.Goodbye{Reason: reason, Identity: gameGUID, Version: 8})
		said := offline(t, l, l.server)
		if len(said) != 1 {
			t.Fatalf("%v: %d datagrams, want a refusal", reason, len(said))
		}
		l.poll()
		if want := max(reason, codec.NoConnection); reason != codec.ReasonNone && ending(t, l.toServer) != want {
			t.Errorf("%v: ended as %v", reason, ending(t, l.toServer))
		}
		if reason == codec.TooSoon {
			if !bytes.Equal(said[0], l.p.appendRefusal(nil, idRecentlyConnected, serverIdentity{guid: gameGUID})) {
				t.Errorf("%v: sent %x", reason, said[0])
			}
			continue
		}
		l.deliver(false, said[0])
		want, ok := heard[reason]
		if !ok {
			want = codec.NoConnection
		}
		e := l.toClient[len(l.toClient)-1]
		if ending(t, l.toClient) != want || e.Identity != gameGUID || want == codec.Incompatible && e.Version != 8 {
			t.Errorf("%v: heard as %+v, want %v", reason, e, want)
		}
	}
}

// TestDeferredClientIsGranted: until the grant, a client's requests get no second reply and no second connection, and
// its online messages are dropped. Afterwards each request gets the same reply, in the name of the server.
func TestDeferredClientIsGranted(t *testing.T) {
	l := newAhead(t, Options{})
	l.exchange()
	request2 := request2Of(l.p, l.now, 77)
	for range 5 {
		if err := l.server.Receive(l.now, request2); err != nil {
			t.Fatal(err)
		}
		early := connectionRequest{guid: 77}
		capsule := capsule{mode: codec.Reliable, payload: early.append(nil)}
		if err := l.server.Receive(l.now, capsule.append(appendDataHeader(nil, 0, false, false))); err != errPhase {
			t.Errorf("a connection request before the grant: %v, want %v", err, errPhase)
		}
		if said := offline(t, l, l.server); len(said) > 0 {
			t.Errorf("sent %x before the grant", said)
		}
		askAgain(t, l) // it has an answer to its first request, but a copy may have been lost
		l.now = l.now.Add(500 * ms)
		l.server.Advance(l.now)
	}
	l.poll()
	if len(l.toServer) > 0 {
		t.Errorf("saw %v before the grant", codectest.Kinds(l.toServer))
	}
	want := openConnectionReply2{guid: gameGUID, client: address{AddrPort: linkClient}, mtu: 1492}
	l.server.Grant(l.now, gameGUID)
	l.server.Grant(l.now, 1)
	for range 2 {
		if said := offline(t, l, l.server); len(said) != 1 || !bytes.Equal(said[0], want.append(nil)) {
			t.Errorf("sent %x after the grant, want %x", said, want.append(nil))
		}
		_ = l.server.Receive(l.now, request2Of(l.p, l.now, 77))
	}
}

// TestForgeriesDoNotRefuseAWaitingClient: a waiting client gets no refusal for forged requests.
func TestForgeriesDoNotRefuseAWaitingClient(t *testing.T) {
	for _, cookies := range []CookieMode{CookiesPrivate, CookiesNone} {
		l := newAhead(t, Options{Cookies: cookies})
		l.exchange()
		oldVersion := openConnectionRequest1{version: 5, length: 1464}
		for _, forged := range [][]byte{
			oldVersion.append(nil), requestWith(l.p, 0x12345678, 99), requestWith(l.p, 0x12345678, 77),
		} {
			_ = l.server.Receive(l.now, forged)
			if said := offline(t, l, l.server); len(said) > 0 {
				t.Errorf("cookies %d: %x is answered by %x", cookies, forged[:24], said)
			}
		}
		l.poll()
		if len(l.toServer) > 0 {
			t.Errorf("cookies %d: saw %v", cookies, codectest.Kinds(l.toServer))
		}
	}
}

// TestDialAhead: between the grant and Introduce a client is silent. A stock server bans the address of a client whose
// first message is not a connection request. Then the client asks with the data of Introduce.
func TestDialAhead(t *testing.T) {
	for _, early := range []bool{false, true} {
		l := newAhead(t, Options{Bits: true})
		l.defers = false
		hello := codec.Hello{Data: []byte("later"), Pad: 3}
		if early {
			l.client.Introduce(l.now, hello)
		}
		l.exchange()
		l.exchange()
		if len(l.toClient) > 0 && (l.toClient[0].Kind != codec.Granted || l.toClient[0].Identity != l.p.o.GUID) {
			t.Fatalf("client saw %+v, want granted by %d", l.toClient, l.p.o.GUID)
		}
		if granted := has(l.toClient, codec.Granted); granted == early || has(l.toServer, codec.Asked) != early {
			t.Errorf("introduced early %v: client saw %v, server %v",
				early, codectest.Kinds(l.toClient), codectest.Kinds(l.toServer))
		}
		if !early {
			l.wait(4 * time.Second)
			wantSilence(t, l)
			l.client.Introduce(l.now, hello)
			l.client.Introduce(l.now, codec.Hello{Data: []byte("again")})
			l.exchange()
		}
		asked := l.toServer[0]
		if asked.Kind != codec.Asked || string(asked.Payload) != "later" || asked.Pad != 3 || asked.Identity != 77 {
			t.Errorf("introduced early %v: server saw %+v", early, l.toServer)
		}
		connect(t, l)
	}
}

// wantSilence checks that a client that waits for Introduce answers nothing.
func wantSilence(t *testing.T, l *link) {
	t.Helper()
	ping := connectedPing{time: 5}
	capsule := capsule{mode: codec.Reliable, payload: ping.append(nil)}
	for _, wire := range [][]byte{
		capsule.append(appendDataHeader(nil, 0, false, false)),
		l.p.appendRefusal(nil, idNoFreeConnections, l.p.self()),
		{0xc0, 0, 1, 1, 0, 0, 0},
	} {
		if err := l.client.Receive(l.now, wire); err != errPhase {
			t.Errorf("%x: %v, want %v", wire, err, errPhase)
		}
		if said := offline(t, l, l.client); len(said) > 0 {
			t.Errorf("sent %x before it was introduced", said)
		}
	}
}

// TestNotIntroduced: a client that ends before Introduce sends nothing to the server, and does not blame it.
func TestNotIntroduced(t *testing.T) {
	for _, leave := range []func(l *link){
		func(l *link) { l.client.Close(l.now, codec.Goodbye{Reason: codec.Closed}) },
		func(l *link) { l.wait(11 * time.Second) },
	} {
		l := newAhead(t, Options{})
		l.defers = false
		l.exchange()
		leave(l)
		l.poll()
		if got := ending(t, l.toClient); got != codec.Closed {
			t.Errorf("ended as %v, want closed", got)
		}
		if said := offline(t, l, l.client); len(said) > 0 {
			t.Errorf("sent %x", said)
		}
		l.client.Introduce(l.now, codec.Hello{Data: []byte("too late")})
		if said := offline(t, l, l.client); len(said) > 0 {
			t.Errorf("sent %x after the end", said)
		}
	}
}

// TestTooSoonIsAskedAgain: a server that accepted another client from our address less than 100 ms ago is asked again.
// All clients of a proxy have one address.
func TestTooSoonIsAskedAgain(t *testing.T) {
	for _, test := range []struct {
		times int // refusals of the server; 0: it always refuses
		want  codec.EventKind
		least time.Duration
	}{
		{1, codec.Granted, 100 * ms},
		{20, codec.Granted, 2 * time.Second},
		{0, codec.Disconnected, 4 * time.Second},
	} {
		l := newAhead(t, Options{})
		refused := 0
		l.drop = func(toServer bool, b []byte) bool {
			id, _ := offlineID(b)
			if !toServer || id != idOpenConnectionRequest2 || test.times > 0 && refused >= test.times {
				return false
			}
			refused++
			_ = l.client.Receive(l.now, l.p.appendRefusal(nil, idRecentlyConnected, serverIdentity{guid: gameGUID}))
			return true
		}
		l.defers = false
		begin := l.now
		for len(l.toClient) == 0 && l.now.Sub(begin) < 5*time.Second {
			l.wait(10 * ms)
		}
		if len(l.toClient) != 1 || l.toClient[0].Kind != test.want {
			t.Fatalf("refused %d times: saw %v, want %v", test.times, codectest.Kinds(l.toClient), test.want)
		}
		if took := l.now.Sub(begin); took < test.least || took > test.least+150*ms {
			t.Errorf("refused %d times: %v after %v, want about %v", test.times, test.want, took, test.least)
		}
		e := l.toClient[0]
		if e.Kind == codec.Disconnected && (e.Reason != codec.TooSoon || e.Identity != gameGUID || refused > 45) {
			t.Errorf("ended as %+v after %d requests", e, refused)
		}
	}
}

// TestAddressesAreOfThePeersPlatform: a stock peer copies an IPv6 address with its family into its own sockaddr.
func TestAddressesAreOfThePeersPlatform(t *testing.T) {
	server6, client6 := written("[2001:db8::1]:19132", 0).AddrPort, written("[2001:db8::2]:40000", 0).AddrPort
	for _, f := range []family{10, familyWindows, 28 | 30<<8} {
		p := New(Options{})
		l := newLinkOf(t, p)
		l.client, l.clientAddr = p.dial(l.now, server6, codec.Hello{Identity: 77}), client6
		l.client.family = f
		var families []family
		l.drop = func(_ bool, b []byte) bool {
			families = append(families, familiesOf(b)...)
			return false
		}
		connect(t, l)
		if len(families) != 4 { // request 2, reply 2, CONNECTION_REQUEST_ACCEPTED, NEW_INCOMING_CONNECTION
			t.Errorf("%d IPv6 addresses were written, want 4", len(families))
		}
		for _, got := range families {
			if got != f {
				t.Errorf("addresses were written with families %v, want %d", families, f)
			}
		}
	}
}

// familiesOf returns the families of the IPv6 addresses in a datagram of a handshake.
func familiesOf(wire []byte) (all []family) {
	var request2 openConnectionRequest2
	var reply2 openConnectionReply2
	var accepted connectionRequestAccepted
	var incoming newIncomingConnection
	note := func(err error, a *address) {
		if err == nil && a.Addr().Is6() {
			all = append(all, a.family)
		}
	}
	note(request2.parse(wire, true), &request2.server)
	note(reply2.parse(wire), &reply2.client)
	if b := firstOnline([][]byte{wire}, idConnectionRequestAccepted); b != nil {
		note(accepted.parse(b), &accepted.client)
	}
	if b := firstOnline([][]byte{wire}, idNewIncomingConnection); b != nil {
		note(incoming.parse(b), &incoming.server)
	}
	return all
}
