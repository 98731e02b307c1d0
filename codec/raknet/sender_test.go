package raknet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// newSender returns a sender at an MTU of 576, so that a part is 516 bytes. It has not assigned a number yet.
func newSender(start Seq24) *sender {
	s := &sender{sending: new(sending), flight: flight{flying: new(flying)}, memory: new(buffers)}
	s.setMTU(576)
	s.flight.Base, s.flight.Due, s.flight.next = start, start, start
	return s
}

func (s *sender) enqueueOne(now time.Duration, mode codec.Mode, size int, receipt codec.Receipt) {
	s.enqueue(now, codec.Message{Payload: gamePayload(size), Mode: mode, Channel: 2, Receipt: receipt})
}

// transmitAll returns the capsules of each datagram that the sender wants to send now.
func (s *sender) transmitAll(t *testing.T, now time.Duration) (datagrams [][]capsule) {
	t.Helper()
	for {
		b, ok := s.transmit(now, nil, true)
		if !ok {
			return datagrams
		}
		var d datagram
		if err := d.parse(b); err != nil || d.kind != dataDatagram || len(b) > s.datagramSize() {
			t.Fatalf("datagram of %d bytes and kind %d: %v", len(b), d.kind, err)
		}
		var list []capsule
		for rest := d.body; len(rest) > 0; {
			var c capsule
			var err error
			if rest, err = c.parse(rest); err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		datagrams = append(datagrams, list)
	}
}

// named returns the body of an ACK or NACK of some ranges.
func named(ranges ...ackRange) []byte {
	w := beginAcks(nil, ackDatagram, codec.MaxDatagram)
	for _, r := range ranges {
		w.add(r)
	}
	return w.end()[1:]
}

func one(n Seq24) []byte { return named(ackRange{n, n}) }

// outcomes returns the outcomes of messages, as "receipt delivered".
func (s *sender) outcomes() (list []string) {
	for _, o := range s.flight.done {
		list = append(list, fmt.Sprint(o.message.Receipt, o.delivered))
		s.finish(o.message)
	}
	s.flight.done = s.flight.done[:0]
	return list
}

func TestSenderNumbersMessages(t *testing.T) {
	s := newSender(0)
	s.Channels = make([]sendChannel, 3)
	s.Channels[2] = sendChannel{Order: seq24Mask, Sequence: 7}
	for _, mode := range []codec.Mode{
		codec.UnreliableSequenced, codec.ReliableSequenced, codec.ReliableOrdered, codec.UnreliableSequenced,
		codec.ReliableOrdered, codec.Reliable, codec.Unreliable,
	} {
		s.enqueueOne(0, mode, 8, 0)
	}
	var got []string
	for _, c := range s.transmitAll(t, 0)[0] {
		got = append(got, fmt.Sprintf("%d:%d.%d.%d", c.mode, c.reliable, c.order, c.sequence))
	}
	want := []string{"1:0.16777215.7", "4:0.16777215.8", "3:1.16777215.0", "1:0.0.0", "3:2.0.0", "2:3.0.0", "0:0.0.0"}
	if !slices.Equal(got, want) {
		t.Errorf("mode:reliable.order.sequence = %v, want %v", got, want)
	}
}

func TestSenderSplits(t *testing.T) {
	for _, test := range []struct{ size, parts int }{{515, 1}, {516, 1}, {517, 2}, {1032, 2}, {1033, 3}} {
		s := newSender(0)
		s.enqueueOne(0, codec.UnreliableSequenced, test.size, 0)
		var joined []byte
		parts := 0
		for _, list := range s.transmitAll(t, 0) {
			for _, c := range list {
				if split := test.parts > 1; c.split != split || split && (c.splitIndex != uint32(parts) ||
					c.splitCount != uint32(test.parts) || c.mode != codec.ReliableSequenced) {
					t.Errorf("%d bytes: part %+v", test.size, c)
				}
				joined = append(joined, c.payload...)
				parts++
			}
		}
		if parts != test.parts || string(joined) != string(gamePayload(test.size)) {
			t.Errorf("%d bytes: %d parts of %d bytes, want %d parts", test.size, parts, len(joined), test.parts)
		}
	}
}

func TestSenderSplitsForPeersThatRepeat(t *testing.T) {
	s := newSender(0)
	s.orderedOnly = true
	s.enqueueOne(0, codec.Unreliable, 600, 0)
	for _, list := range s.transmitAll(t, 0) {
		if list[0].mode != codec.ReliableOrdered {
			t.Errorf("part %d is %v, want reliable-ordered", list[0].splitIndex, list[0].mode)
		}
	}
}

func TestSenderBoundsOpenSplits(t *testing.T) {
	s := newSender(0)
	s.Congestion.Window = 1 << 20
	for range maxOpenSplits + 1 {
		s.enqueueOne(0, codec.Reliable, 1000, 0)
	}
	if got := len(s.transmitAll(t, 0)); got != 2*maxOpenSplits {
		t.Fatalf("%d parts under way, want %d", got, 2*maxOpenSplits)
	}
	_ = s.acknowledge(ms, named(ackRange{0, 1}))
	s.outcomes()
	if got := len(s.transmitAll(t, ms)); got != 2 {
		t.Errorf("%d parts more after one message arrived, want 2", got)
	}
}

// TestSenderBoundsOpenSplitsToClients: two split messages under way to a client differ in the low byte of their IDs.
func TestSenderBoundsOpenSplitsToClients(t *testing.T) {
	s := newSender(0)
	s.toClient, s.SplitID = true, 65_500
	s.Congestion.Window = 1 << 20
	for range openSplitIDs + 10 {
		s.enqueueOne(0, codec.Reliable, 1000, 0)
	}
	if got := len(s.transmitAll(t, 0)); got != 2*openSplitIDs || s.openSplits != openSplitIDs {
		t.Fatalf("%d parts of %d messages under way, want %d of %d", got, s.openSplits, 2*openSplitIDs, openSplitIDs)
	}
	_ = s.acknowledge(ms, named(ackRange{2, 5})) // the second and the third message
	s.outcomes()
	if got := len(s.transmitAll(t, ms)); got != 0 {
		t.Errorf("%d parts more while the first message is under way, want none", got)
	}
	_ = s.acknowledge(2*ms, named(ackRange{0, 1}))
	s.outcomes()
	if got := len(s.transmitAll(t, 2*ms)); got != 6 {
		t.Errorf("%d parts more after three messages arrived, want 6", got)
	}
}

func TestSenderDropsWhatWaitedTooLong(t *testing.T) {
	s := newSender(0)
	s.Congestion.InFlight = s.Congestion.Window + urgentLeeway*s.datagramSize()
	s.enqueueOne(0, codec.Unreliable, 8, 1)
	s.enqueueOne(0, codec.Unreliable, 600, 2) // split, and so reliable
	s.enqueueOne(0, codec.Reliable, 8, 3)
	s.enqueueOne(500*ms, codec.Unreliable, 8, 4)
	if got := s.transmitAll(t, 900*ms); len(got) > 0 {
		t.Fatalf("%d datagrams sent over a full window", len(got))
	}
	s.Congestion.InFlight = 0
	messages := slices.Concat(s.transmitAll(t, queueLife+ms)...)
	if got, want := s.outcomes(), []string{"1 false"}; !slices.Equal(got, want) || len(messages) != 4 {
		t.Errorf("outcomes %v and %d capsules sent, want %v and 4", got, len(messages), want)
	}
}

func TestSenderBooks(t *testing.T) {
	s := newSender(seq24Mask - 3)
	for i := range 20 {
		s.enqueueOne(0, modes[i%5], 300*(i%4)+1, codec.Receipt(i%2*(i+1)))
	}
	for now := time.Duration(0); !s.settled() || s.bytes > 0; now += 10 * ms {
		if now > time.Minute {
			t.Fatalf("%d bytes of %d messages still on the books", s.bytes, s.count)
		}
		s.transmitAll(t, now)
		if n, ok := s.flight.oldestDue(); ok {
			_ = s.acknowledge(now+5*ms, one(n))
		}
		s.advance(now, false)
		s.outcomes()
	}
	if s.bytes != 0 || s.count != 0 || s.openSplits != 0 || s.Congestion.InFlight != 0 || s.flight.unacked != 0 {
		t.Errorf("on the books at the end: %d bytes, %d messages, %d splits, %d in flight, %d unacknowledged",
			s.bytes, s.count, s.openSplits, s.Congestion.InFlight, s.flight.unacked)
	}
	if !s.isIdle() {
		t.Error("not idle though nothing is under way")
	}
}
