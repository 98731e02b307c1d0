package raknet

import (
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestCloseSendsWhatWasQueued loses every third datagram, and still all messages arrive before the end.
func TestCloseSendsWhatWasQueued(t *testing.T) {
	l := newConnected(t, Options{})
	for i := range 40 {
		l.send(l.client, modes[i%5], 100, codec.Receipt(1+i))
	}
	l.client.Close(l.now, codec.Goodbye{Reason: codec.ServerStopped})
	if err := l.client.Send(l.now, codec.Message{Payload: gamePayload(1)}); err != codec.ErrClosed {
		t.Errorf("Send after Close: %v", err)
	}
	sent := 0
	l.drop = func(bool, []byte) bool {
		sent++
		return sent%3 == 0
	}
	l.wait(3 * time.Second)
	if got := ending(t, l.toClient); got != codec.ServerStopped {
		t.Errorf("client ended as %v, want server-stopped", got)
	}
	if got := ending(t, l.toServer); got != codec.Closed {
		t.Errorf("server ended as %v, want closed", got)
	}
	if got := count(l.toServer, codec.Received); got < 24 {
		t.Errorf("%d messages arrived, want at least the 24 reliable ones", got)
	}
	if got := count(l.toClient, codec.Delivered) + count(l.toClient, codec.Lost); got != 40 {
		t.Errorf("%d receipts answered, want 40", got)
	}
}

// TestShortVisit counts the datagrams of a client that leaves when it is admitted. Acknowledgements travel with the
// next step, and the goodbye with the last one. Nothing waits for a timer.
func TestShortVisit(t *testing.T) {
	l := newLink(t, Options{})
	var toServer, toClient int
	l.drop = func(up bool, b []byte) bool {
		if up {
			toServer++
		} else {
			toClient++
		}
		return false
	}
	l.exchange()
	l.now = l.now.Add(5 * ms) // our server side asks another server meanwhile
	l.server.Admit(l.now, 3)
	for l.carry(l.server, false) {
	}
	if !has(l.toClient, codec.Connected) {
		t.Fatal("not let in")
	}
	l.client.Close(l.now, codec.Goodbye{Reason: codec.Closed})
	l.exchange()
	ending(t, l.toClient)
	if toServer != 5 || toClient != 5 {
		t.Errorf("%d datagrams to the server and %d back, want 5 and 5", toServer, toClient)
	}
	l.drop = func(up bool, b []byte) bool {
		toClient++
		return true
	}
	l.wait(2 * time.Second) // unanswered pings show that the goodbye is the client's
	ending(t, l.toServer)
	if toClient > 11 {
		t.Errorf("%d pings to a client that has left, want at most 6", toClient-5)
	}
}

// TestBareGoodbye sends a server the goodbye of rust-raknet, a single byte. It ends the session of a client that is
// silent from then on, and does not end the session of one that still answers: anybody can send that byte.
func TestBareGoodbye(t *testing.T) {
	for _, gone := range []bool{true, false} {
		l := newConnected(t, Options{})
		l.drop = func(up bool, _ []byte) bool { return up && gone }
		if err := l.server.Receive(l.now, []byte{idDisconnectionNotification}); err != nil {
			t.Fatal(err)
		}
		l.wait(2 * time.Second)
		switch {
		case gone:
			if got := ending(t, l.toServer); got != codec.Closed {
				t.Errorf("the session ended as %v, want closed", got)
			}
		case has(l.toServer, codec.Disconnected):
			t.Error("the session of a client that is there ended")
		}
	}
}

// TestGoodbyeOfAnActivePlayer forges a goodbye of a player whose messages arrive, and whose answers do not.
func TestGoodbyeOfAnActivePlayer(t *testing.T) {
	l := newConnected(t, Options{})
	isAck := func(b []byte) bool { return len(b) > 0 && b[0]&bitACK != 0 }
	l.drop = func(up bool, b []byte) bool { return !up || isAck(b) }
	if err := l.server.Receive(l.now, []byte{idDisconnectionNotification}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		l.send(l.client, codec.Unreliable, 20, 0)
		l.wait(200 * ms)
	}
	if has(l.toServer, codec.Disconnected) {
		t.Error("the session of a player who plays on ended")
	}
}

// TestCloseEndsWithoutThePeer closes towards a peer that is gone.
func TestCloseEndsWithoutThePeer(t *testing.T) {
	l := newConnected(t, Options{CloseTimeout: time.Second})
	l.drop = func(bool, []byte) bool { return true }
	l.send(l.client, codec.Reliable, 5000, 1)
	l.client.Close(l.now, codec.Goodbye{})
	l.wait(time.Second - 1)
	if len(l.toClient) > 0 {
		t.Fatalf("client saw %v within its second", codectest.Kinds(l.toClient))
	}
	l.wait(1)
	got, want := codectest.Kinds(l.toClient), []codec.EventKind{codec.Lost, codec.Disconnected}
	if !slices.Equal(got, want) {
		t.Errorf("client saw %v, want %v", got, want)
	}
	if !l.client.NextTimeout().IsZero() {
		t.Error("wants to be woken after the end")
	}
}

// TestViolatorsAreTold starts a message that fits into no memory, while one of ours to the violator is under way.
func TestViolatorsAreTold(t *testing.T) {
	h := newHostile(t, Options{})
	h.send(h.server, codec.ReliableOrdered, 20, 1)
	for h.carry(h.server, false) { // the message arrives, and is not acknowledged
		h.drop = func(bool, []byte) bool { return true }
	}
	h.drop = nil
	tooLarge := capsule{mode: codec.Reliable, split: true, splitCount: 1 << 20, payload: gamePayload(1000)}
	for range 2 {
		if err := h.inject(h.next(tooLarge)); err != errSplitTooLarge {
			t.Fatalf("sent %v", err)
		}
		h.server.receiver.giant.GiantSince -= h.p.o.Timeout // one part may be forged
	}
	if got := ending(t, h.toServer); got != codec.Violation {
		t.Errorf("the server ended as %v, want violation", got)
	}
	h.carry(h.server, false)
	h.wait(goodbyePatience + 100*ms)
	if got := ending(t, h.toClient); got != codec.Closed {
		t.Errorf("the client ended as %v, want closed", got)
	}
	if wire, ok := h.server.Transmit(h.now, nil); ok && wire[0]&bitACK == 0 {
		t.Errorf("%x followed the goodbye", wire)
	}
}

func TestCloseBeforeAdmitRefuses(t *testing.T) {
	for _, test := range []struct{ said, heard codec.Reason }{
		{codec.InvalidPassword, codec.InvalidPassword}, {codec.ServerFull, codec.ServerFull},
		{codec.Banned, codec.Banned}, {codec.AlreadyConnected, codec.AlreadyConnected},
		{codec.TooSoon, codec.TooSoon}, {codec.Incompatible, codec.Incompatible},
		{codec.Rejected, codec.Rejected}, {codec.ServerStopped, codec.Rejected}, {codec.ReasonNone, codec.Rejected},
	} {
		l := newLink(t, Options{})
		l.exchange()
		l.send(l.client, codec.Reliable, 20, 5)
		l.server.Close(l.now, codec.Goodbye{Reason: test.said})
		l.exchange()
		if got := ending(t, l.toClient); got != test.heard {
			t.Errorf("%v heard as %v, want %v", test.said, got, test.heard)
		}
		if got := codectest.Kinds(l.toClient); !slices.Equal(got, []codec.EventKind{codec.Lost, codec.Disconnected}) {
			t.Errorf("%v: client saw %v, want lost, disconnected", test.said, got)
		}
		l.wait(0)
		ending(t, l.toServer)
	}
}

func TestCloseWhileDialling(t *testing.T) {
	l := newLink(t, Options{})
	l.send(l.client, codec.Reliable, 20, 5)
	l.client.Close(l.now, codec.Goodbye{Reason: codec.Closed})
	l.poll()
	if got := ending(t, l.toClient); got != codec.Closed {
		t.Errorf("ended as %v, want closed", got)
	}
	if _, ok := l.client.Transmit(l.now, nil); ok {
		t.Error("still dials")
	}
}

// TestClientReturnsDuringShutdown: the peer dials again before it has acknowledged our goodbye.
func TestClientReturnsDuringShutdown(t *testing.T) {
	l := newConnected(t, Options{})
	l.server.Close(l.now, codec.Goodbye{Reason: codec.Kicked})
	_ = l.server.Receive(l.now, request2Of(l.p, l.now, 77))
	l.poll()
	if got := ending(t, l.toServer); got != codec.Kicked {
		t.Errorf("ended as %v, want kicked", got)
	}
}
