package raknet

import (
	"errors"
	"testing"
	"time"

	"tidegate/codec"
)

// TestHesitate: messages arrive while their acknowledgements are delayed. The acknowledgements leave after the
// pressure. So a sender with a window waits, and nothing is lost.
func TestHesitate(t *testing.T) {
	l := newConnected(t, Options{})
	l.wait(time.Second)
	acks := 0
	l.drop = func(toServer bool, b []byte) bool {
		if toServer && b[0]&bitACK != 0 {
			acks++
		}
		return false
	}
	l.client.Throttle(l.now, codec.Hesitate)
	for range 3 {
		l.send(l.server, codec.ReliableOrdered, 20, 0)
	}
	l.wait(20 * ms)
	if got := count(l.toClient, codec.Received); got != 3 || acks != 0 {
		t.Errorf("%d messages came and %d ACKs left, want 3 and none", got, acks)
	}
	l.wait(2 * time.Second)
	if acks != 0 || l.server.Stats().Resent == 0 {
		t.Errorf("%d ACKs left under pressure; the server sent %d again", acks, l.server.Stats().Resent)
	}
	l.client.Throttle(l.now, codec.NoPressure)
	l.wait(ms)
	if got := count(l.toClient, codec.Received); acks != 1 || got != 3 || l.server.Stats().Queued > 0 {
		t.Errorf("%d ACKs, %d messages, and %d bytes wait still", acks, got, l.server.Stats().Queued)
	}
}

// TestRefusedData: refused messages are sent again, and arrive once.
func TestRefusedData(t *testing.T) {
	l := newConnected(t, Options{})
	l.wait(time.Second)
	l.client.Throttle(l.now, codec.Refuse)
	var refused []byte
	l.drop = func(toServer bool, b []byte) bool {
		if !toServer {
			refused = b
		}
		return !toServer
	}
	l.send(l.server, codec.ReliableOrdered, 20, 0)
	l.wait(ms)
	if err := l.client.Receive(l.now, refused); !errors.Is(err, codec.ErrFull) {
		t.Errorf("under pressure: %v, want ErrFull", err)
	}
	l.drop = nil
	l.wait(time.Second)
	if len(l.toClient) > 0 || l.client.Stats().Dropped == 0 {
		t.Errorf("under pressure the client saw %v, %d dropped", l.toClient, l.client.Stats().Dropped)
	}
	l.client.Throttle(l.now, codec.NoPressure)
	l.wait(2 * time.Second)
	if got := count(l.toClient, codec.Received); got != 1 || has(l.toClient, codec.Disconnected) {
		t.Errorf("later the client saw %v", l.toClient)
	}
}

// TestFill: Fill counts the same messages as Send.
func TestFill(t *testing.T) {
	l := newConnected(t, Options{MaxQueued: 100_000})
	l.drop = func(bool, []byte) bool { return true }
	for l.server.Send(l.now, codec.Message{Payload: gamePayload(100), Mode: codec.Reliable}) == nil {
	}
	if got := l.server.Fill(); got < 0.99 || got > 1 {
		t.Errorf("a full queue is filled to %v", got)
	}
}

// TestPressureEndsWithTheConnection: a goodbye is acknowledged under pressure, and a connection that is not up feels
// none.
func TestPressureEndsWithTheConnection(t *testing.T) {
	l := newConnected(t, Options{})
	l.client.Throttle(l.now, codec.Refuse)
	l.client.Close(l.now, codec.Goodbye{Reason: codec.Closed})
	l.client.Throttle(l.now, codec.Refuse)
	l.wait(time.Second)
	if !has(l.toClient, codec.Disconnected) || !has(l.toServer, codec.Disconnected) {
		t.Errorf("the client saw %v, the server %v", l.toClient, l.toServer)
	}
}
