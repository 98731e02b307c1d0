package raknet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
)

// TestReplayClient gives our client side the datagrams of real servers.
func TestReplayClient(t *testing.T) {
	eachConnection(t, func(t *testing.T, c *capture, conn int) {
		if _, ok := c.first(conn, "client", idOpenConnectionRequest1); !ok {
			t.Skip("no attempt to connect")
		}
		p := meet(t, c, conn)
		r := newReplay(t)
		protocol := New(Options{DialVersion: p.version, Versions: []uint8{p.version}}) // as a client of one version
		r.runTo(c.Lines[0].At())
		r.conn = protocol.Dial(r.now, p.server, codec.Hello{Identity: p.clientGUID, Data: p.password})
		r.drain()
		list := c.delivered(conn, "server")
		for _, d := range list {
			r.runTo(d.At())
			_ = r.receive(d.Datagram)
		}
		o := readByOracle(list)
		r.wantMessages(o)
		r.runTo(r.now.Sub(replayStart) + time.Minute)
		wantEnd(t, r, c, conn, o)
		wantRequests(t, r, c, conn)
	})
}

// wantEnd checks why the connection ended: by a refusal, by the server's goodbye, or by its silence after the capture.
func wantEnd(t *testing.T, r *replay, c *capture, conn int, o *oracle) {
	want, refused := refusing[t.Name()[len("TestReplayClient/"):]]
	switch {
	case refused:
	case o.closed:
		want = codec.Closed
	case r.connected:
		want = codec.TimedOut
	default:
		want = codec.NoConnection
	}
	if !r.over || r.reason != want {
		t.Errorf("over = %v for %v, want %v", r.over, r.reason, want)
	}
}

// wantRequests compares our half of the handshake with the real client's.
func wantRequests(t *testing.T, r *replay, c *capture, conn int) {
	recorded := wiresOf(c, conn, "client")
	for _, b := range offlineOnly(r.sent) {
		var second openConnectionRequest2
		if r.connected && second.parse(b, hasCookie(c, conn)) == nil && second.server.Addr().Is4() && !contains(recorded, b) {
			t.Errorf("requested %x, which the real client did not", b)
		}
	}
	if !r.connected {
		return
	}
	var ours, theirs connectionRequest
	parseOnline(t, &ours, r.sent, idConnectionRequest)
	parseOnline(t, &theirs, recorded, idConnectionRequest)
	if ours.guid != theirs.guid || !bytes.Equal(ours.password, theirs.password) {
		t.Errorf("asked as %#x with %q, want %#x with %q", ours.guid, ours.password, theirs.guid, theirs.password)
	}
	var ourEnd, theirEnd newIncomingConnection
	parseOnline(t, &ourEnd, r.sent, idNewIncomingConnection)
	parseOnline(t, &theirEnd, recorded, idNewIncomingConnection)
	if stockBuildOfBedrock(c) {
		theirEnd.addresses = ourEnd.addresses
		theirEnd.serverTime = ourEnd.serverTime // parsed from go-raknet's longer list
	}
	theirEnd.clientTime = ourEnd.clientTime
	if ourEnd != theirEnd {
		t.Errorf("completed the connection by %+v, want %+v", ourEnd, theirEnd)
	}
}

// stockBuildOfBedrock reports whether a peer of the capture is stock RakNet rebuilt with a Bedrock version. It still
// lists 10 addresses.
func stockBuildOfBedrock(c *capture) bool {
	return strings.HasPrefix(c.Name, "cpp_client_gork") || strings.HasPrefix(c.Name, "gork_client_cpp")
}

func parseOnline(t *testing.T, m wireType, wires [][]byte, id byte) {
	t.Helper()
	b := firstOnline(wires, id)
	if b == nil {
		t.Fatalf("no message %#x", id)
	}
	if err := m.parse(b); err != nil {
		t.Fatal(err)
	}
}
