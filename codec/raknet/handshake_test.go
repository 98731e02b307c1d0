package raknet

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestHandshake(t *testing.T) {
	l := newLink(t, Options{})
	l.exchange()
	if len(l.toServer) != 1 || l.toServer[0].Kind != codec.Asked {
		t.Fatalf("server saw %v, want asked", codectest.Kinds(l.toServer))
	}
	if asked := l.toServer[0]; string(asked.Payload) != "secret" || asked.Identity != 77 {
		t.Errorf("asked with %q by %d", asked.Payload, asked.Identity)
	}
	l.wait(time.Second)
	if len(l.toClient) > 0 {
		t.Errorf("client saw %v before Admit", codectest.Kinds(l.toClient))
	}
	l.server.Admit(l.now, 3)
	l.exchange()
	if len(l.toClient) != 1 || l.toClient[0].Kind != codec.Connected || l.toClient[0].Client != 3 {
		t.Errorf("client saw %+v, want connected as 3", l.toClient)
	}
	if len(l.toServer) != 2 || l.toServer[1].Kind != codec.Connected {
		t.Errorf("server saw %v, want asked, connected", codectest.Kinds(l.toServer))
	}
}

// TestHandshakeSurvivesEachLoss loses the nth datagram of the handshake, for each n, and twice in a row.
func TestHandshakeSurvivesEachLoss(t *testing.T) {
	for n := range 16 {
		l := newLink(t, Options{})
		sent := 0
		l.drop = func(bool, []byte) bool {
			sent++
			return sent == n+1 || sent == n+2
		}
		l.wait(2 * time.Second)
		if l.server == nil || !has(l.toServer, codec.Asked) {
			t.Fatalf("loss of %d: not asked within 2 s", n)
		}
		l.server.Admit(l.now, 3)
		l.wait(3 * time.Second)
		if count(l.toClient, codec.Connected) != 1 || count(l.toServer, codec.Connected) != 1 {
			t.Errorf("loss of %d: client saw %v, server %v", n, codectest.Kinds(l.toClient), codectest.Kinds(l.toServer))
		}
	}
}

// TestRequestIsRepeated: a server that has the connection request and does not answer is asked again each second, also
// by a restored client. Cloudburst sends its answer unreliably.
func TestRequestIsRepeated(t *testing.T) {
	l := newLink(t, Options{})
	requests := 0
	l.drop = func(toServer bool, b []byte) bool {
		if toServer && bytes.Contains(b, []byte("secret")) {
			requests++
		}
		return false
	}
	l.wait(1500 * ms)
	if requests != 2 {
		t.Fatalf("%d requests in 1.5 s, want 2", requests)
	}
	restored, err := l.client.p.Restore(l.now, nil, l.client.Save(l.now, nil))
	if err != nil {
		t.Fatal(err)
	}
	l.client = restored.(*Conn)
	l.wait(time.Second)
	if requests != 3 || count(l.toServer, codec.Asked) != 1 {
		t.Errorf("%d requests in 2.5 s, the server saw %v", requests, codectest.Kinds(l.toServer))
	}
	l.server.Admit(l.now, 3)
	l.wait(5 * time.Second)
	if requests != 3 || count(l.toClient, codec.Connected) != 1 || count(l.toServer, codec.Connected) != 1 {
		t.Errorf("%d requests, client saw %v, server %v", requests, codectest.Kinds(l.toClient), codectest.Kinds(l.toServer))
	}
}

func TestDialStepsDownToThePathsMTU(t *testing.T) {
	for _, test := range []struct{ path, mtu int }{{1500, 1492}, {1400, 1200}, {600, 576}} {
		l := newLink(t, Options{})
		l.drop = func(_ bool, datagram []byte) bool { return len(datagram)+udpOverhead > test.path }
		l.wait(5 * time.Second)
		if l.server == nil || l.server.sender.MTU != test.mtu || l.client.sender.MTU != test.mtu {
			t.Errorf("path of %d bytes: no connection, or not of MTU %d", test.path, test.mtu)
		}
	}
}

func TestDialIsRefused(t *testing.T) {
	for _, reason := range []codec.Reason{
		codec.AlreadyConnected, codec.ServerFull, codec.Banned,
	} {
		l := newLink(t, Options{})
		id, _ := refusalID(reason)
		_ = l.client.Receive(l.now, l.p.appendRefusal(nil, id, l.p.self()))
		l.poll()
		if got := ending(t, l.toClient); got != reason {
			t.Errorf("%#x ends the attempt as %v, want %v", id, got, reason)
		}
	}
}

// TestDialChangesVersion plays servers that speak one version and name another, or the same.
func TestDialChangesVersion(t *testing.T) {
	for _, test := range []struct {
		what  string
		named []uint8 // in each refusal
		want  uint8   // version of the next request; 0: there is none
	}{
		{"a version of ours", []uint8{10}, 10},
		{"the same refusal again", []uint8{10, 10}, 10},
		{"one after the other", []uint8{10, 9}, 9},
		{"a version that is not ours", []uint8{8}, 0},
		{"the version that was refused", []uint8{11}, 0},
		{"back and forth", []uint8{10, 11}, 0},
	} {
		l := newLink(t, Options{DialVersion: 11, Versions: []uint8{9, 10, 11}})
		var request openConnectionRequest1
		for _, version := range test.named {
			m := incompatible{version: version, guid: 1}
			_ = l.client.Receive(l.now, m.append(nil))
			l.poll()
			if wire, ok := l.client.Transmit(l.now, nil); ok {
				if err := request.parse(wire); err != nil {
					t.Fatalf("%s: %v", test.what, err)
				}
			}
		}
		if test.want == 0 {
			if got := ending(t, l.toClient); got != codec.Incompatible {
				t.Errorf("%s: ended as %v, want incompatible", test.what, got)
			}
			continue
		}
		if request.version != test.want || len(l.toClient) > 0 {
			t.Errorf("%s: asked with version %d, saw %v, want %d", test.what, request.version,
				codectest.Kinds(l.toClient), test.want)
		}
	}
}

// TestDialReachesAnotherVersion lists as many addresses as the agreed version has.
func TestDialReachesAnotherVersion(t *testing.T) {
	l := newLinkOf(t, New(Options{DialVersion: 6, Versions: []uint8{6, 11}}))
	l.p = New(Options{DialVersion: 11, Versions: []uint8{11}}) // the server's
	connect(t, l)
	if !l.client.longList || !l.server.longList {
		t.Errorf("handshake of version 11 with long lists: client %v, server %v", l.client.longList, l.server.longList)
	}
}

func TestDialGivesUp(t *testing.T) {
	l := newLink(t, Options{})
	l.drop = func(bool, []byte) bool { return true }
	l.wait(10*time.Second - 1)
	if len(l.toClient) > 0 {
		t.Errorf("client saw %v within 10 s", codectest.Kinds(l.toClient))
	}
	l.wait(1)
	if got := ending(t, l.toClient); got != codec.NoConnection {
		t.Errorf("ended as %v, want no-connection", got)
	}
}

// TestDialMeetsEncryption plays a server that offers a key, and one that encrypts.
func TestDialMeetsEncryption(t *testing.T) {
	offer := openConnectionReply1{guid: 1, hasCookie: true, cookie: 2, encrypts: true, mtu: 1492}
	wire := offer.append(nil)
	l := newLink(t, Options{})
	l.drop = func(bool, []byte) bool { return true }
	_ = l.client.Receive(l.now, wire)
	l.wait(10 * time.Second)
	if got := ending(t, l.toClient); got != codec.Incompatible {
		t.Errorf("a server with a key that falls silent: ended as %v, want incompatible", got)
	}

	l = newLink(t, Options{})
	_ = l.client.Receive(l.now, wire)
	grant := openConnectionReply2{guid: 1, client: address{AddrPort: linkClient}, mtu: 1492, encrypts: true}
	_ = l.client.Receive(l.now, grant.append(nil))
	l.poll()
	if got := ending(t, l.toClient); got != codec.Incompatible {
		t.Errorf("a server that encrypts: ended as %v, want incompatible", got)
	}
	if wire, _ := l.client.Transmit(l.now, nil); string(wire) != "\x0a\x00" {
		t.Errorf("sent %x to it, want 0a00", wire)
	}
}

func TestServerAnswersOfflineMessagesOfItsClient(t *testing.T) {
	l := newConnected(t, Options{Pong: []byte("hello")})
	if err := l.server.Receive(l.now, AppendPing(nil, 1, 2)); err != nil {
		t.Error(err)
	}
	wire, _ := l.server.Transmit(l.now, nil)
	if pong, err := ParsePong(wire); err != nil || string(pong.Data) != "hello" {
		t.Errorf("ping answered by %q, %v", pong.Data, err)
	}
	for _, step := range []struct {
		wait time.Duration
		ping []byte
		want error
	}{
		{pongEvery - 1, AppendPing(nil, 1, 2), codec.ErrUnexpected},
		{1, AppendPing(nil, 1, 2)[:minPingSize], codec.ErrMalformed},
		{0, AppendPing(nil, 1, 2), nil},
		{0, AppendPing(nil, 1, 2), codec.ErrUnexpected},
	} {
		l.now = l.now.Add(step.wait)
		if err := l.server.Receive(l.now, step.ping); !errors.Is(err, step.want) {
			t.Errorf("a ping %v later: %v, want %v", step.wait, err, step.want)
		}
	}
	forged := request2Of(New(Options{Seed: [32]byte{9}}), l.now, 78)
	if err := l.server.Receive(l.now, forged); !errors.Is(err, codec.ErrRefused) {
		t.Errorf("a second request with a bad cookie: %v, want ErrRefused", err)
	}
	if err := l.client.Receive(l.now, AppendPing(nil, 1, 2)); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("a ping to a client: %v, want ErrUnexpected", err)
	}
}

func TestHalfOpenConnectionEnds(t *testing.T) {
	l := newLink(t, Options{})
	l.exchange()
	l.drop = func(bool, []byte) bool { return true }
	l.wait(10 * time.Second)
	if got := ending(t, l.toServer); got != codec.TimedOut {
		t.Errorf("ended as %v, want timed-out", got)
	}
}

// TestMessagesAheadOfTheHandshake: messages that overtake the client's last message of the handshake are delivered.
func TestMessagesAheadOfTheHandshake(t *testing.T) {
	l := newLink(t, Options{})
	l.exchange()
	l.server.Admit(l.now, 1)
	l.carry(l.server, false) // the client is connected now
	var held [][]byte
	l.drop = func(toServer bool, datagram []byte) bool {
		if toServer && len(datagram) > 60 && len(held) == 0 { // its last message of the handshake
			held = append(held, datagram)
			return true
		}
		return !toServer // no further datagram asks for it
	}
	for l.carry(l.client, true) {
	}
	l.send(l.client, codec.Reliable, 20, 0)
	l.exchange()
	if len(held) != 1 || has(l.toServer, codec.Received) || has(l.toServer, codec.Connected) {
		t.Fatalf("%d held back, server saw %v", len(held), codectest.Kinds(l.toServer))
	}
	_ = l.server.Receive(l.now, held[0])
	l.poll()
	if n := len(l.toServer); n < 2 || l.toServer[n-2].Kind != codec.Connected || l.toServer[n-1].Kind != codec.Received {
		t.Errorf("server saw %v, want connected, received at the end", codectest.Kinds(l.toServer))
	}
}

func TestTooMuchAheadOfTheHandshake(t *testing.T) {
	l := newLink(t, Options{})
	l.exchange()
	l.server.Admit(l.now, 1)
	for i := range maxEarly + 1 {
		c := capsule{mode: codec.Reliable, reliable: Seq24(1 + i), payload: gamePayload(8)}
		_ = l.server.Receive(l.now, c.append(appendDataHeader(nil, Seq24(1+i), false, false)))
		l.poll()
		if over := has(l.toServer, codec.Disconnected); over != (i == maxEarly) {
			t.Fatalf("over = %v after %d messages, with a bound of %d", over, i+1, maxEarly)
		}
	}
	if got := ending(t, l.toServer); got != codec.Violation {
		t.Errorf("ended as %v, want violation", got)
	}
}

// TestCookiesGrowOld lets the client's process pause before it reads a server's first reply, and before it sends its
// second request again. go-raknet blocks the address of all players for an old cookie, so the client asks for another.
// A reply that comes while the second request is under way does not change its cookie. TestCookiesOfAServerThatIsBehind
// has a server that pauses.
func TestCookiesGrowOld(t *testing.T) {
	reply := func(cookie uint32) []byte {
		m := openConnectionReply1{guid: 1, hasCookie: true, cookie: cookie, mtu: 1492}
		return m.append(nil)
	}
	for _, test := range []struct {
		name          string
		before, after time.Duration // pauses before the reply, and before the next datagram
		late          bool          // another reply comes, too
		want          []uint32      // cookies of second requests; 0: a first request
	}{
		{"no pause", 50 * time.Millisecond, 400 * time.Millisecond, false, []uint32{7, 7}},
		{"a late reply", 50 * time.Millisecond, 400 * time.Millisecond, true, []uint32{7, 7}},
		{"before the reply", 2 * time.Second, 0, false, []uint32{0}},
		{"after it", 50 * time.Millisecond, 2 * time.Second, false, []uint32{7, 0}},
	} {
		now := time.Unix(1_700_000_000, 0)
		client := New(Options{}).Dial(now, linkServer, codec.Hello{})
		var got []uint32
		send := func() {
			client.Advance(now)
			for b, ok := client.Transmit(now, nil); ok; b, ok = client.Transmit(now, nil) {
				var m openConnectionRequest2
				if m.parse(b, true) == nil {
					got = append(got, m.cookie)
				} else {
					got = append(got, 0)
				}
			}
		}
		send()
		got = nil
		now = now.Add(test.before)
		_ = client.Receive(now, reply(7))
		send()
		if test.late {
			_ = client.Receive(now, reply(8))
		}
		if test.after > 0 {
			now = now.Add(test.after)
			send()
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: requests %v, want %v", test.name, got, test.want)
		}
	}
}

// TestCookiesOfAServerThatIsBehind has a server read each datagram a while after it was sent. It gets no cookie that is
// older than 2 s, for which go-raknet blocks the address of all players. One that is not so far behind is joined.
func TestCookiesOfAServerThatIsBehind(t *testing.T) {
	type lag struct {
		first, more time.Duration // how far the server is behind: at first, and more with each second
		joins       bool
	}
	tests := []lag{
		{0, 0, true}, {800 * ms, 0, true}, {1200 * ms, 0, true}, {1200 * ms, time.Second, false}, {1800 * ms, 0, true},
		{1900 * ms, 0, false},
		{3 * time.Second, 0, false},
	}
	for first := time.Duration(0); first <= 2*time.Second; first += 200 * ms {
		for more := 100 * ms; more <= time.Second; more += 100 * ms {
			tests = append(tests, lag{first, more, first < 600*ms})
		}
	}
	for _, test := range tests {
		start := time.Unix(1_700_000_000, 0)
		client := New(Options{}).Dial(start, linkServer, codec.Hello{})
		type read struct {
			at     time.Duration
			cookie uint32 // of a second request; 0: a first request
			size   int
		}
		var queue []read
		joined := false
		for at := time.Duration(0); at < 8*time.Second; at += 10 * ms {
			now := start.Add(at)
			for len(queue) > 0 && queue[0].at <= at {
				r := queue[0]
				queue = queue[1:]
				if age := at - time.Duration(r.cookie)*ms; r.cookie > 0 {
					joined = true
					if age >= 2*time.Second {
						t.Errorf("behind by %v: a cookie is %v old", test.first, age)
					}
					continue
				}
				m := openConnectionReply1{guid: 1, hasCookie: true, cookie: uint32(at/ms) + 1, mtu: uint16(r.size)}
				_ = client.Receive(now, m.append(nil))
			}
			client.Advance(now)
			lag := test.first + time.Duration(at.Seconds()*float64(test.more))
			for b, ok := client.Transmit(now, nil); ok; b, ok = client.Transmit(now, nil) {
				var m openConnectionRequest2
				_ = m.parse(b, true) // or it is a first request, without a cookie
				queue = append(queue, read{at + lag, m.cookie, udpOverhead + len(b)})
			}
		}
		if joined != test.joins && (test.joins || test.more == 0) {
			t.Errorf("behind by %v, and %v a second: joins %v, want %v", test.first, test.more, joined, test.joins)
		}
	}
}

// TestLostFirstRequests loses the first requests, or all requests beyond the path's MTU. Some servers name a larger
// MTU than the request had (Cloudburst over IPv6), or one of their own. The second request leaves as soon as a reply
// can be there, and also when a server answers after a long time of silence.
func TestLostFirstRequests(t *testing.T) {
	for _, c := range []struct {
		name                  string
		lost, path, more, max int
		deaf, rtt, within     time.Duration
	}{
		{"none", 0, 1492, 0, 1492, 0, 120 * ms, 150 * ms},
		{"three lost", 3, 1492, 0, 1492, 0, 120 * ms, 1100 * ms},
		{"three lost on a long path", 3, 1492, 0, 1492, 0, 1100 * ms, 3 * time.Second},
		{"narrow, and a larger MTU", 0, 1300, 20, 1400, 0, 10 * ms, 1600 * ms},
		{"an MTU of the server's own", 2, 1492, 0, 1480, 0, 10 * ms, 600 * ms},
		{"deaf for long", 0, 1492, 0, 1492, 8 * time.Second, 10 * ms, 9 * time.Second},
	} {
		start := time.Unix(1_700_000_000, 0)
		client := New(Options{}).Dial(start, linkServer, codec.Hello{})
		replies, sent, asked := make(map[time.Duration][]byte), 0, false
		for at := time.Duration(0); at < c.within && !asked; at += 10 * ms {
			if b := replies[at]; b != nil {
				_ = client.Receive(start.Add(at), b)
			}
			client.Advance(start.Add(at))
			for b, ok := client.Transmit(start.Add(at), nil); ok; b, ok = client.Transmit(start.Add(at), nil) {
				asked = asked || b[0] == idOpenConnectionRequest2
				if sent++; sent > c.lost && len(b)+udpOverhead <= c.path && at >= c.deaf {
					m := openConnectionReply1{guid: 1, hasCookie: true, cookie: 1, mtu: uint16(min(c.max, len(b)+udpOverhead+c.more))}
					replies[at+c.rtt] = m.append(nil)
				}
			}
		}
		if !asked {
			t.Errorf("%s: no second request within %v", c.name, c.within)
		}
	}
}

// TestCookiesOverALongPath joins a server whose cookies count for 2 to 4 s, as go-raknet's, over a path of a long round
// trip. The server blocks the address of all players for an older one, so beyond 1.85 s there is none. Without Tidegate
// a player has an address of its own: 16 of 16 got in at 1.95 s, 14 at 2.2 s, 11 at 2.6 s and 8 at 3 s.
func TestCookiesOverALongPath(t *testing.T) {
	for rtt := 100 * ms; rtt <= 3*time.Second; rtt += 20 * ms {
		for turn := time.Duration(0); turn < 2*time.Second; turn += 250 * ms { // of the server's key
			start := time.Unix(1_700_000_000, 0)
			client := New(Options{}).Dial(start, linkServer, codec.Hello{}).(*Conn)
			type late struct {
				at time.Duration
				b  []byte
			}
			var up, down []late
			joined := time.Duration(0)
			for at := time.Duration(0); at < 10*time.Second && joined == 0; at += 10 * ms {
				now, epoch := start.Add(at), uint32((at+turn)/(2*time.Second))+1
				for ; len(up) > 0 && up[0].at <= at; up = up[1:] {
					b := up[0].b
					var m openConnectionRequest2
					if m.parse(b, true) != nil {
						r := openConnectionReply1{guid: 1, hasCookie: true, cookie: epoch, mtu: uint16(udpOverhead + len(b))}
						down = append(down, late{at + rtt/2, r.append(nil)})
						continue
					}
					if m.cookie+1 < epoch {
						t.Fatalf("%v: blocked for a cookie of epoch %d in %d", rtt, m.cookie, epoch)
					}
					r := openConnectionReply2{guid: 1, client: client.address(), mtu: m.mtu}
					down = append(down, late{at + rtt/2, r.append(nil)})
				}
				for ; len(down) > 0 && down[0].at <= at; down = down[1:] {
					_ = client.Receive(now, down[0].b)
				}
				if client.phase >= requesting {
					joined = at
				}
				client.Advance(now)
				for b, ok := client.Transmit(now, nil); ok; b, ok = client.Transmit(now, nil) {
					up = append(up, late{at + rtt/2, b})
				}
			}
			if joins := joined > 0; joins != (rtt <= 1850*ms) || joins && joined > 2*rtt+800*ms {
				t.Errorf("%v: joined after %v", rtt, joined)
			}
			if patience := client.sender.RTT.timeout(); joined > 0 && patience < min(rtt, firstTimeout) {
				t.Errorf("%v: what leaves first is sent again after %v", rtt, patience)
			}
		}
	}
}
