package raknet

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
)

// newLiteralSender returns a sender with a literal peer.
func newLiteralSender(t *testing.T) *sender {
	t.Helper()
	s := newSender(0)
	s.Congestion.Window = 1 << 30
	s.flight.becomeLiteral()
	return s
}

// repeatOf sends once, and returns the number of the datagram and its capsules.
func repeatOf(t *testing.T, s *sender, now time.Duration) (n Seq24, list []capsule) {
	t.Helper()
	b, ok := s.transmit(now, nil, true)
	var d datagram
	if err := d.parse(b); !ok || err != nil {
		t.Fatalf("nothing sent at %v: %v", now, err)
	}
	for rest := d.body; len(rest) > 0; {
		var c capsule
		var err error
		if rest, err = c.parse(rest); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return d.number, list
}

func TestLiteralPeerGetsTheSameNumberAgain(t *testing.T) {
	s := newLiteralSender(t)
	for range 3 {
		s.enqueueOne(0, codec.Reliable, 500, 0)
	}
	s.transmitAll(t, 0)
	_ = s.acknowledge(10*ms, one(0))
	_ = s.reject(20*ms, one(1))
	n, list := repeatOf(t, s, 20*ms)
	if n != 1 || len(list) != 1 || list[0].reliable != 1 {
		t.Errorf("datagram %d with %v, want 1 again", n, list)
	}
	rtt := s.RTT.Smoothed
	_ = s.acknowledge(21*ms, one(1))
	if s.RTT.Smoothed != rtt {
		t.Error("an acknowledgement of one of two transmissions is taken for a measure")
	}
	_ = s.acknowledge(21*ms, one(2))
	if got := s.transmitAll(t, 30*ms); len(got) > 0 {
		t.Errorf("sent %d datagrams more", len(got))
	}
	if s.flight.trim(); s.flight.Base != s.flight.next {
		t.Errorf("%d to %d are still in flight", s.flight.Base, s.flight.next)
	}
}

// TestLiteralPeerGetsLostNumbersEmpty: a lost datagram without needed content is sent again empty.
func TestLiteralPeerGetsLostNumbersEmpty(t *testing.T) {
	s := newLiteralSender(t)
	s.enqueueOne(0, codec.Unreliable, 500, 1)
	s.transmitAll(t, 0)
	s.advance(firstTimeout, false)
	if got := s.outcomes(); len(got) != 1 || got[0] != "1 false" {
		t.Errorf("outcomes %v, want that it was lost", got)
	}
	if n, list := repeatOf(t, s, firstTimeout); n != 0 || len(list) != 0 {
		t.Errorf("datagram %d with %v, want 0 empty", n, list)
	}
}

// TestLiteralPeerIsNotOverrun: no datagram and no message goes beyond the room that the peer keeps behind the first
// missing one. This holds for any losses.
func TestLiteralPeerIsNotOverrun(t *testing.T) {
	for _, size := range []int{500, 8} {
		s := newLiteralSender(t)
		for range 1000 {
			s.enqueueOne(0, codec.ReliableOrdered, size, 0)
		}
		for range 3 {
			s.transmitAll(t, 0)
			if n := s.flight.next; n > 1 {
				_ = s.acknowledge(ms, named(ackRange{1, n - 1}))
			}
		}
		if s.flight.next > literalRoom || s.flight.Reliable > literalRoom {
			t.Errorf("%d bytes: %d datagrams and %d messages, though the first is missing",
				size, s.flight.next, s.flight.Reliable)
		}
		if s.flight.next < literalRoom-spareNumbers && s.flight.Reliable < literalRoom {
			t.Errorf("%d bytes: %d datagrams and %d messages leave room", size, s.flight.next, s.flight.Reliable)
		}
		_ = s.acknowledge(ms, one(0))
		if got := s.transmitAll(t, ms); len(got) == 0 {
			t.Errorf("%d bytes: nothing is sent when there is room again", size)
		}
	}
}

// TestLiteralPeerIsNoticedLate: the numbers of forgotten datagrams are sent again, since they may be missing.
func TestLiteralPeerIsNoticedLate(t *testing.T) {
	s := newSender(0)
	s.enqueueOne(0, codec.Reliable, 500, 0)
	s.transmitAll(t, 0)
	s.advance(firstTimeout, false)
	s.transmitAll(t, firstTimeout) // the same as datagram 1
	_ = s.acknowledge(firstTimeout+ms, one(1))
	s.flight.trim()
	s.flight.becomeLiteral()
	seen := map[Seq24]bool{}
	for range s.flight.next {
		n, list := repeatOf(t, s, 2*firstTimeout)
		if seen[n] = true; len(list) > 0 {
			t.Errorf("datagram %d has %v", n, list)
		}
	}
	if !seen[0] {
		t.Errorf("sent again: %v, want 0 among them", seen)
	}
	_ = s.acknowledge(2*firstTimeout+ms, named(ackRange{0, 1}))
	if s.flight.trim(); s.flight.Base != s.flight.next {
		t.Errorf("%d to %d are still in flight", s.flight.Base, s.flight.next)
	}
}

// TestSilenceStopsNoSender: after an outage the data goes again, also to a peer that holds its ACKs back. A literal
// peer gets the datagrams of the probe under their old numbers.
func TestSilenceStopsNoSender(t *testing.T) {
	for name, literal := range map[string]bool{"literal": true, "not literal": false} {
		t.Run(name, func(t *testing.T) {
			s := newSender(0)
			s.flight.Literal = literal
			s.enqueueOne(0, codec.Reliable, 500, 0)
			s.transmitAll(t, 0)
			_ = s.acknowledge(30*ms, one(0))
			s.Congestion.queue.Lagging = true
			for range 20 {
				s.enqueueOne(30*ms, codec.Reliable, 500, 0)
			}
			s.transmitAll(t, 30*ms)
			outage := 5 * time.Second
			for now := 31 * ms; now < outage; now += ms { // nothing arrives
				s.advance(now, false)
				s.transmitAll(t, now)
			}
			for now := outage; now < outage+2*longestBackoff && s.flight.unacked > 0; now += ms {
				s.advance(now, false)
				if len(s.transmitAll(t, now)) > 0 {
					_ = s.acknowledge(now, named(ackRange{0, s.flight.next.Add(-1)}))
				}
			}
			if s.flight.unacked > 0 {
				t.Errorf("%d messages have not arrived 2 s after an outage", s.flight.unacked)
			}
		})
	}
}

// numberedPeer takes what a sender sends to it, and acknowledges a round trip of 50 ms later. Some datagrams and some
// acknowledgements are lost.
type numberedPeer struct {
	loss    float64
	forgets bool // as RakLib, which takes no number that it has requested; jsp-raknet acknowledges all
	splits  int  // how many may be open; a part of a further one is lost, and acknowledged
	seen    map[Seq24]bool
	indexes map[Seq24]bool
	open    map[uint16]map[uint32]bool
	whole   int // messages
}

// play sends each 10 ms until all has arrived, for two minutes at most.
func (p *numberedPeer) play(t *testing.T, s *sender) {
	p.seen, p.indexes, p.open = map[Seq24]bool{}, map[Seq24]bool{}, map[uint16]map[uint32]bool{}
	random, newest := rand.New(rand.NewPCG(1, 2)), Seq24(0)
	acks := map[time.Duration][]Seq24{}
	for now := time.Duration(0); now < 2*time.Minute && !s.settled(); now += 10 * ms {
		for _, n := range acks[now] {
			_ = s.acknowledge(now, one(n))
		}
		s.outcomes()
		s.advance(now, false)
		if now%untimedPing == 0 {
			s.enqueueControl(now, codec.Unreliable, make([]byte, connectedPingSize), 0)
		}
		for {
			first, again := s.flight.nextRepeat()
			b, ok := s.transmit(now, nil, true)
			if !ok {
				break
			}
			var d datagram
			if err := d.parse(b); err != nil || again && d.number != first {
				t.Fatal(err)
			}
			if random.Float64() < p.loss || p.forgets && (p.seen[d.number] || d.number.Before(newest)) {
				continue
			}
			p.seen[d.number] = true
			if newest.Before(d.number) {
				newest = d.number
			}
			p.read(t, d.body)
			if random.Float64() >= p.loss {
				acks[now+50*ms] = append(acks[now+50*ms], d.number)
			}
		}
	}
}

func (p *numberedPeer) read(t *testing.T, b []byte) {
	for len(b) > 0 {
		var c capsule
		var err error
		if b, err = c.parse(b); err != nil {
			t.Fatal(err)
		}
		if !c.mode.IsReliable() || p.indexes[c.reliable] {
			continue
		}
		p.indexes[c.reliable] = true
		if !c.split {
			p.whole++
			continue
		}
		if p.open[c.splitID] == nil {
			if len(p.open) == p.splits {
				continue
			}
			p.open[c.splitID] = map[uint32]bool{}
		}
		if p.open[c.splitID][c.splitIndex] = true; len(p.open[c.splitID]) == int(c.splitCount) {
			delete(p.open, c.splitID)
			p.whole++
		}
	}
}

// TestRakLibLosesNoSplitMessage: RakLib takes parts of 4 messages at once.
func TestRakLibLosesNoSplitMessage(t *testing.T) {
	s, p := newSender(0), numberedPeer{loss: 0.1, forgets: true, splits: 4}
	s.Few = true
	for range 500 {
		s.enqueueOne(0, codec.ReliableOrdered, 9000, 0)
	}
	if p.play(t, s); p.whole != 500 {
		t.Errorf("%d of 500 messages arrived", p.whole)
	}
}

// TestMistakenForLiteral: a peer that takes no number twice gets new ones after a while. One that acknowledges all that
// it gets stays literal, with any losses.
func TestMistakenForLiteral(t *testing.T) {
	for _, forgets := range []bool{true, false} {
		s, p := newLiteralSender(t), numberedPeer{loss: 0.05, forgets: forgets, splits: 4}
		for range 5000 {
			s.enqueueOne(0, codec.ReliableOrdered, 300, 0)
		}
		if p.play(t, s); p.whole != 5000 || s.flight.Literal == forgets || s.Few != forgets {
			t.Errorf("takes no number twice %v: %d of 5000 messages arrived, literal %v", forgets, p.whole, s.flight.Literal)
		}
	}
}

// TestWhoIsLiteral: a server whose answer to the connection request is unreliable has no timers, unless its datagrams
// have a bit that jsp-raknet's and RakLib's never have. Only jsp-raknet's clock begins in 1970. RakLib drops repeated
// numbers for good, so it may not count as literal. The recording is Cloudburst's.
func TestWhoIsLiteral(t *testing.T) {
	const handshake = "0100000403001004" + "80fffffe92fe0000" + "0480fffffe0000"
	unix, uptime := "000001a21d350171", "00000000023c3460"
	for name, c := range map[string]struct {
		first, time      string
		untimed, literal bool
	}{
		"Cloudburst": {"84", unix, false, false},
		"jsp-raknet": {"80", unix, true, true},
		"RakLib":     {"80", uptime, true, false},
	} {
		answer, err := hex.DecodeString(c.first + handshake + strings.Repeat("04ffffffff0000", 9) +
			"000001a21d350162" + c.time)
		if err != nil {
			t.Fatal(err)
		}
		l := newLink(t, Options{DialVersion: 11})
		l.drop = func(toServer bool, b []byte) bool { return !toServer && b[0]&bitValid != 0 }
		l.wait(100 * ms)
		if err := l.client.Receive(l.now, answer); err != nil || l.client.phase < accepted {
			t.Fatalf("%s: not accepted: %v", name, err)
		}
		q, s := l.client.quirks, &l.client.sender
		if s.flight.Literal != c.literal || q.untimed != c.untimed || s.Few != (name == "RakLib") {
			t.Errorf("%s: literal %v, untimed %v, few %v", name, s.flight.Literal, q.untimed, s.Few)
		}
	}
}

// TestForgedStepsChangeNoQuirks: in session, a forged message of the handshake says nothing about the peer's library.
func TestForgedStepsChangeNoQuirks(t *testing.T) {
	for _, id := range []byte{idConnectionRequest, idConnectionRequestAccepted, idNewIncomingConnection} {
		l := newConnected(t, Options{})
		payload := append([]byte{id}, strings.Repeat("\x00\x00\x01\xa2\x1d\x35\x01\x71", 2)...)
		for name, c := range map[string]*Conn{"client": l.client, "server": l.server} {
			b := []byte{bitValid, 60, 0, 0, 0, 0, byte(len(payload) * 8)}
			c.quirks.rated = false // as of another library
			_ = c.Receive(l.now, append(b, payload...))
			if c.sender.flight.Literal || c.quirks.untimed {
				t.Errorf("%s, %#x: %+v", name, id, c.quirks)
			}
		}
	}
}
