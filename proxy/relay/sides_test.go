package relay

import (
	"testing"
	"time"

	"tidegate/codec"
)

// counted is a connection that counts the calls of a turn.
type counted struct {
	codec.Conn
	calls int
}

func (c *counted) Advance(now time.Time) {
	c.calls++
	c.Conn.Advance(now)
}

func (c *counted) Transmit(now time.Time, b []byte) ([]byte, bool) {
	c.calls++
	return c.Conn.Transmit(now, b)
}

func (c *counted) Poll() (codec.Event, bool) {
	c.calls++
	return c.Conn.Poll()
}

// TestTurnsLeaveTheOtherSideAlone: pings to a client, and its answers, concern the client's connection only. A message
// concerns both.
func TestTurnsLeaveTheOtherSideAlone(t *testing.T) {
	w := savedWorld(t, func(*Route) {})
	r := w.proxy.relay
	for e := range r.table.All {
		client, server := &counted{Conn: e.Value.client.Conn}, &counted{Conn: e.Value.upstream.Conn}
		e.Value.client.Conn, e.Value.upstream.Conn = client, server
		goodbye := []byte{0x15} // it is forged, so the client is pinged, and answers
		r.Receive(w.Now(), e.Value.face, e.Key.Client, goodbye)
		r.Flush(w.Now())
		w.Run(500 * time.Millisecond)
		if client.calls < 20 || server.calls > 0 {
			t.Errorf("%d calls of the client's side, %d of the server's; want at least 20, and 0", client.calls, server.calls)
		}
		r.received(w.Now(), e, 0, &codec.Message{Payload: []byte{0x86, 1}, Mode: codec.Reliable})
		r.settle(w.Now(), e)
		r.Flush(w.Now())
		if server.calls == 0 {
			t.Error("the server's side has not sent the message")
		}
	}
}
