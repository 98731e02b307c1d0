package raknet

import (
	"testing"

	"tidegate/codec"
)

// TestWaiting counts the messages that wait for an earlier one, until that comes.
func TestWaiting(t *testing.T) {
	l := newConnected(t, Options{})
	first := true
	l.drop = func(toServer bool, datagram []byte) bool {
		lost := toServer && first && len(datagram) > 500
		first = first && !lost
		return lost
	}
	for range 3 {
		if err := l.client.Send(l.now, codec.Message{Payload: gamePayload(1000), Mode: codec.ReliableOrdered}); err != nil {
			t.Fatal(err)
		}
		l.carry(l.client, true)
	}
	if got := l.server.Waiting(); got < 2000 || got > 2*(2048+placeCost) {
		t.Errorf("%d bytes wait for the lost message, want two messages", got)
	}
	l.wait(firstTimeout)
	if got := l.server.Waiting(); got != 0 {
		t.Errorf("%d bytes wait after the lost message has come, want none", got)
	}
}
