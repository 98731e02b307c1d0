package raknet

import (
	"testing"

	"tidegate/codec"
	"tidegate/internal/registry"
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

// TestHeldFor: what waits for an earlier message fits into the queue to the other side.
func TestHeldFor(t *testing.T) {
	s := Settings{MaxMTU: 1492, MaxMessage: 1 << 10}
	for queue, want := range map[int]int{0: 4 << 20, 1 << 20: 512 << 10, 4 << 20: 2 << 20, 64 << 20: 4 << 20} {
		if got := s.with("raknet", registry.Use{Queue: queue}).MaxHeld; got != want {
			t.Errorf("queue of %d: %d bytes may wait, want %d", queue, got, want)
		}
	}
}
