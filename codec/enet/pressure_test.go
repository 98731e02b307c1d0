package enet

import (
	"testing"
	"time"

	"tidegate/codec"
)

// TestPressure: messages arrive while their acknowledgements wait. So the peer's window stops it. The acknowledgements
// leave after a time, and at once when the pressure is over or the peer has said goodbye.
func TestPressure(t *testing.T) {
	for _, test := range []struct {
		pressure codec.Pressure
		wait     time.Duration
	}{{codec.Hesitate, hesitation}, {codec.Refuse, refusal}} {
		now, conns := joined(t)
		server, client := conns[0], conns[1]
		server.Throttle(now, test.pressure)
		for n := 0; client.Send(now, codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, 500)}) == nil; n++ {
			if n > maxWindow/500 {
				break
			}
		}
		exchange(now, conns)
		waits := client.out.reliable.len()
		if waits == 0 || server.acks.len() == 0 || server.stats.Received < 10 {
			t.Fatalf("%d messages wait behind the window, %d acknowledgements are held", waits, server.acks.len())
		}
		if at := server.heldAcksAt(); !at.Equal(now.Add(test.wait)) || server.NextTimeout().After(at) {
			t.Errorf("the acknowledgements leave after %v, want %v", at.Sub(now), test.wait)
		}
		exchange(now.Add(test.wait-1), conns)
		if client.out.reliable.len() != waits {
			t.Error("acknowledgements left too early")
		}
		exchange(now.Add(test.wait), conns)
		if client.out.reliable.len() != 0 {
			t.Errorf("%d messages wait after %v", client.out.reliable.len(), test.wait)
		}
		server.Throttle(now, codec.NoPressure)
		exchange(now.Add(test.wait), conns)
		if client.flight.messages != 0 || server.acks.len() != 0 {
			t.Errorf("%d messages are not acknowledged after the pressure", client.flight.messages)
		}
	}
}

// TestPressureEndsWithTheSession: a goodbye and its acknowledgement do not wait.
func TestPressureEndsWithTheSession(t *testing.T) {
	for leaves := range 2 {
		now, conns := joined(t)
		conns[0].Throttle(now, codec.Refuse)
		conns[leaves].Close(now, codec.Goodbye{Reason: codec.Closed})
		conns[0].Throttle(now, codec.Refuse)
		exchange(now, conns)
		if conns[leaves].state != closed {
			t.Errorf("side %d has not ended: state %d", leaves, conns[leaves].state)
		}
	}
}

// TestFill: Fill counts the same bytes and messages as Send.
func TestFill(t *testing.T) {
	for _, size := range []int{1, 1000} {
		_, conns := joined(t)
		for conns[0].Send(start, codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, size)}) == nil {
		}
		if got := conns[0].Fill(); got < 0.99 || got > 1 {
			t.Errorf("a queue full of messages of %d bytes is filled to %v", size, got)
		}
	}
}
