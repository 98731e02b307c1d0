package raknet

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// TestReplayServer gives our server side the datagrams of real clients. It runs once as a server without cookies, like
// the real one, and once as a server with cookies. In the second run the client's requests get our cookie.
func TestReplayServer(t *testing.T) {
	eachConnection(t, func(t *testing.T, c *capture, conn int) {
		t.Run("cookies", func(t *testing.T) { replayServer(t, c, conn, true) })
		t.Run("none", func(t *testing.T) {
			r := replayServer(t, c, conn, false)
			wantOfflineAnswers(t, r, c, conn)
			wantWelcome(t, r, c, conn)
		})
	})
}

// serverReplay is our server side under replay. The Protocol answers until there is a Conn.
type serverReplay struct {
	*replay
	protocol *Protocol
	peers    peers
	recorded bool // the client was asked for a cookie when it was recorded
	cookies  bool // we demand one
}

func replayServer(t *testing.T, c *capture, conn int, cookies bool) *serverReplay {
	p := meet(t, c, conn)
	s := &serverReplay{
		replay: newReplay(t), protocol: New(serverOptions(c, p, cookies)), peers: p,
		recorded: hasCookie(c, conn), cookies: cookies,
	}
	list := c.delivered(conn, "client")
	for _, d := range list {
		s.runTo(d.At())
		s.take(d.Datagram)
	}
	o := readByOracle(list)
	s.wantMessages(o)
	s.wantAsked(c, conn, list)
	s.runTo(s.now.Sub(replayStart) + time.Minute)
	want := codec.TimedOut
	if o.closed || (cookies && c.Name == "already_connected") { // a second client with a proof replaces the first
		want = codec.Closed
	}
	if s.conn != nil && (!s.over || s.reason != want) {
		t.Errorf("over = %v for %v, want %v", s.over, s.reason, want)
	}
	return s
}

func cookieMode(cookies bool) CookieMode {
	if cookies {
		return CookiesPrivate
	}
	return CookiesNone
}

// serverOptions makes our server look like the real one.
func serverOptions(c *capture, p peers, cookies bool) Options {
	o := Options{GUID: p.serverGUID, Cookies: cookieMode(cookies)}
	for _, d := range c.Lines {
		if pong, err := ParsePong(d.Datagram); err == nil {
			o.Pong = pong.Data
		}
		var old incompatible
		if old.parse(d.Datagram) == nil {
			o.Versions = []uint8{old.version}
		}
	}
	return o
}

// take gives one of the client's datagrams to the Conn, or else to the Protocol.
func (s *serverReplay) take(wire []byte) {
	wire = s.withCookie(wire)
	if s.conn != nil {
		_ = s.receive(wire)
		return
	}
	s.accept(wire)
}

// accept gives the Protocol a datagram.
func (s *serverReplay) accept(wire []byte) {
	if !s.protocol.Sniff(wire) {
		return
	}
	conn, reply, _ := s.protocol.Accept(s.now, s.peers.client, bytes.Clone(wire), nil)
	if len(reply) > 0 {
		s.sent = append(s.sent, reply)
	}
	if conn != nil {
		s.conn = conn
		s.drain()
	}
}

// withCookie rewrites a client's second request as if our server had been the recorded one.
func (s *serverReplay) withCookie(wire []byte) []byte {
	var m openConnectionRequest2
	if m.parse(wire, s.recorded) != nil {
		return wire
	}
	m.hasCookie = s.cookies
	for _, sent := range s.sent { // the last one that our server gave counts
		var first openConnectionReply1
		if first.parse(sent) == nil {
			m.cookie = first.cookie
		}
	}
	return m.append(nil)
}

// wantAsked checks the client's data in Asked.
func (s *serverReplay) wantAsked(c *capture, conn int, arrived []captured) {
	s.t.Helper()
	request, ok := capturedRequest(c, conn)
	ok = ok && slices.ContainsFunc(arrived, func(d captured) bool {
		return firstOnline([][]byte{d.Datagram}, idConnectionRequest) != nil
	})
	if (s.asked != nil) != ok {
		s.t.Fatalf("asked = %v, want %v", s.asked != nil, ok)
	}
	if ok && (s.asked.Identity != request.guid || !bytes.Equal(s.asked.Payload, request.password)) {
		s.t.Errorf("asked as %#x with %q, want %#x with %q",
			s.asked.Identity, s.asked.Payload, request.guid, request.password)
	}
}

// wantOfflineAnswers compares our answers with those of the real server, byte by byte. It skips kinds that the real
// server never sent.
func wantOfflineAnswers(t *testing.T, s *serverReplay, c *capture, conn int) {
	if s.recorded {
		return // it contains a cookie of theirs
	}
	if c.Name == "cpp_client_gork_server_lost_reply2" {
		return // go-raknet fell silent after its first answer
	}
	ours, theirs := offlineOnly(s.sent), offlineOnly(wiresOf(c, conn, "server"))
	for _, b := range ours {
		ofKind := func(x []byte) bool { return x[0] == b[0] }
		if slices.ContainsFunc(theirs, ofKind) && !contains(theirs, b) {
			t.Errorf("answered %x, which the real server did not", b)
		}
	}
	if len(theirs) > 0 && len(ours) == 0 {
		t.Error("gave no answer at all")
	}
}

// wantWelcome compares our CONNECTION_REQUEST_ACCEPTED with the real server's.
func wantWelcome(t *testing.T, s *serverReplay, c *capture, conn int) {
	recorded := wiresOf(c, conn, "server")
	if firstOnline(recorded, idConnectionRequestAccepted) == nil {
		return
	}
	var ours, theirs connectionRequestAccepted
	parseOnline(t, &ours, s.sent, idConnectionRequestAccepted)
	parseOnline(t, &theirs, recorded, idConnectionRequestAccepted)
	if stockBuildOfBedrock(c) {
		theirs.addresses = ours.addresses
	}
	theirs.index = 0 // stock servers count their clients
	theirs.replyTime = ours.replyTime
	if ours != theirs {
		t.Errorf("welcomed by %+v, want %+v", ours, theirs)
	}
}
