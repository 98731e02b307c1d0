package raknet

import (
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// game has the server of a link send a world and two messages of a whole datagram each, while both sides chat. It
// returns the lengths of the client's messages, without the chat.
func (l *link) game(d time.Duration) (lengths []int) {
	return l.gameOf(d, wholeGame)
}

// gameOf is game with other messages than a world and two of a datagram.
func (l *link) gameOf(d time.Duration, sizes []int) (lengths []int) {
	l.delay = 10 * ms
	for i, size := range sizes {
		l.sendOrdered(l.server, size, codec.Receipt(i+1))
	}
	for end := l.now.Add(d); l.now.Before(end); {
		l.send(l.server, codec.Unreliable, 20, 0)
		l.send(l.client, codec.Reliable, 20, 0)
		l.wait(50 * ms)
	}
	for _, e := range l.toClient {
		if e.Kind == codec.Received && len(e.Payload) != 20 {
			lengths = append(lengths, len(e.Payload))
		}
	}
	return lengths
}

func (l *link) sendOrdered(c *Conn, size int, receipt codec.Receipt) {
	m := codec.Message{Payload: gamePayload(size), Mode: codec.ReliableOrdered, Receipt: receipt}
	if err := c.Send(l.now, m); err != nil {
		l.t.Fatal(err)
	}
}

var wholeGame = []int{50_000, 1350, 1350}

// TestHoleOfSizes sends over a path that loses all datagrams to the client beyond a size. Everything arrives once and
// in order, also what was sent before the hole was noticed, and the figures name the size.
func TestHoleOfSizes(t *testing.T) {
	for hole, want := range map[int]int{1392: 1200, 1000: 576} {
		l := newConnected(t, Options{})
		l.drop = func(toServer bool, b []byte) bool { return !toServer && len(b) > hole }
		if got := l.game(20 * time.Second); !slices.Equal(got, wholeGame) {
			t.Errorf("hole of %d: messages of %v bytes, want %v", hole, got, wholeGame)
		}
		if got := l.server.Stats().MTU; got != want || l.client.Stats().MTU != 0 {
			t.Errorf("hole of %d: MTU %d, client's %d; want %d and none", hole, got, l.client.Stats().MTU, want)
		}
		delivered := 0
		for _, e := range l.toServer {
			if e.Kind == codec.Delivered {
				delivered++
			}
		}
		if s := &l.server.sender; delivered != 3 || s.openSplits != 0 || s.bytes != 0 || s.flight.unacked != 0 {
			t.Errorf("hole of %d: %d receipts, %d open, %d bytes wait", hole, delivered, s.openSplits, s.bytes)
		}
	}
}

// TestNoHoleOfSizes: outages, losses and a forger's requests do not narrow a path.
func TestNoHoleOfSizes(t *testing.T) {
	type path func(l *link, n int, toServer bool) (lost bool)
	for name, lost := range map[string]path{
		"outages": func(l *link, _ int, _ bool) bool { return l.now.Sub(linkStart)%(3*time.Second) > time.Second },
		"losses":  func(_ *link, n int, _ bool) bool { return n%3 == 0 },
		"a forger": func(l *link, n int, toServer bool) bool {
			if !toServer && l.server.sender.flight.next > 0 {
				w := beginAcks(nil, nackDatagram, codec.MaxDatagram)
				w.add(ackRange{0, l.server.sender.flight.next})
				_ = l.server.Receive(l.now, w.end())
			}
			return false
		},
	} {
		l := newConnected(t, Options{})
		n := 0
		l.drop = func(toServer bool, b []byte) bool { n++; return lost(l, n, toServer) }
		if got := l.game(20 * time.Second); !slices.Equal(got, wholeGame) || l.server.Stats().MTU != 0 {
			t.Errorf("%s: messages of %v bytes, MTU %d", name, got, l.server.Stats().MTU)
		}
	}
}

// TestHoleAfterArrival loses every acknowledgement of messages that have come, and then all large datagrams. The sender
// begins the messages again as other parts, with new reliable numbers. They are still told once.
func TestHoleAfterArrival(t *testing.T) {
	l := newConnected(t, Options{})
	begun, sizes := l.now, []int{5000, 1350, 1340}
	l.drop = func(toServer bool, b []byte) bool {
		return toServer && l.now.Sub(begun) < 300*ms || !toServer && len(b) > 1000 && l.now.Sub(begun) > 100*ms
	}
	got := l.gameOf(20*time.Second, sizes)
	if mtu := l.server.Stats().MTU; !slices.Equal(got, sizes) || mtu != 576 {
		t.Errorf("messages of %v bytes, MTU %d", got, mtu)
	}
	if s := &l.server.sender; s.bytes != 0 || s.flight.unacked != 0 {
		t.Errorf("%d bytes wait", s.bytes)
	}
}

// TestHostileLine: in no record does a message in flight wait in a line. On a narrower path it begins again.
func TestHostileLine(t *testing.T) {
	l := newConnected(t, Options{})
	l.send(l.server, codec.Reliable, 1400, 0)
	for ok := true; ok; {
		_, ok = l.server.Transmit(l.now, nil)
	}
	m := l.server.sender.flight.parts[0].message
	m.InLine, m.Channel = true, maxChannels-1
	l.server.sender.Narrowing.Turns = narrowAfter
	conn, err := l.p.Restore(l.now, nil, l.server.Save(l.now, nil))
	if err != nil {
		t.Fatal(err)
	}
	restored := conn.(*Conn)
	restored.Advance(l.now)
	if got := restored.sender.bulk.peek(); got == nil || got.InLine {
		t.Fatal("no message begins again, or it waits in a line")
	}
	for ok := true; ok; {
		_, ok = restored.Transmit(l.now, nil)
	}
}
