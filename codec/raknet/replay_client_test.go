package raknet

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
)

// TestReplayClient drives our client side with what real servers sent.
func TestReplayClient(t *testing.T) {
	eachConnection(t, func(t *testing.T, c *capture, conn int) {
		if _, ok := c.first(conn, "client", idOpenConnectionRequest1); !ok {
			t.Skip("no attempt to connect")
		}
		p := meet(t, c, conn)
		r := newReplay(t)
		protocol := New(Options{DialVersion: p.version})
		r.runTo(c.datagrams[0].at())
		r.conn = protocol.Dial(r.now, p.server, codec.Hello{Identity: p.clientGUID, Data: p.password})
		r.drain()
		list := c.delivered(conn, "server")
		for _, d := range list {
			r.runTo(d.at())
			_ = r.receive(d.wire)
		}
		o := readByOracle(list)
		r.wantMessages(o)
		r.runTo(r.now.Sub(replayStart) + time.Minute)
		wantEnd(t, r, c, conn, o)
		wantRequests(t, r, c, conn)
	})
}

// wantEnd checks why the connection ended: refused, by the server's goodbye, or by its silence after the capture.
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
	theirs := offlineOf(c, conn, "client")
	for _, b := range r.sentOffline() {
		var second openConnectionRequest2
		if r.connected && second.parse(b, hasCookie(c, conn)) == nil && second.server.Addr().Is4() && !contains(theirs, b) {
			t.Errorf("requested %x, which the real client did not", b)
		}
	}
	request, ok := capturedRequest(c, conn)
	if !ok {
		return
	}
	for _, b := range r.sent {
		ours, ok := requestIn(b)
		if !ok {
			continue
		}
		if ours.guid != request.guid || !bytes.Equal(ours.password, request.password) {
			t.Errorf("asked as %#x with %q, want %#x with %q", ours.guid, ours.password, request.guid, request.password)
		}
		return
	}
	if r.connected {
		t.Error("no connection request sent")
	}
}
