package raknet

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

func TestAcknowledgedOnce(t *testing.T) {
	s := newSender(seq24Mask)
	s.enqueueOne(0, codec.Reliable, 500, 1)
	s.enqueueOne(0, codec.Unreliable, 500, 2)
	s.enqueueOne(0, codec.Reliable, 1000, 3)
	s.transmitAll(t, 0) // four datagrams: 2^24-1, 0, 1, 2
	for _, step := range []struct {
		what string
		body []byte
		want []string
	}{
		{"over the wrap-around", named(ackRange{seq24Mask, 0}), []string{"1 true", "2 true"}},
		{"the same again", named(ackRange{seq24Mask, 0}), nil},
		{"never sent", one(3), nil},
		{"one of two parts", one(1), nil},
		{"the other part", one(2), []string{"3 true"}},
	} {
		if err := s.acknowledge(50*ms, step.body); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if got := s.outcomes(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if s.RTT.Smoothed != 50*ms {
		t.Errorf("round trip of %v, want 50 ms", s.RTT.Smoothed)
	}
}

func TestSilenceSendsAgain(t *testing.T) {
	s := newSender(seq24Mask)
	s.enqueueOne(0, codec.Unreliable, 8, 1)
	s.enqueueOne(0, codec.ReliableOrdered, 8, 2)
	first := s.transmitAll(t, 0)[0]
	at, ok := s.nextTimeout(false)
	if !ok || at != firstTimeout {
		t.Fatalf("next timeout %v, %v, want %v", at, ok, firstTimeout)
	}
	s.advance(at-1, false)
	if got := s.transmitAll(t, at-1); len(got) > 0 {
		t.Fatal("sent again too early")
	}
	s.advance(at, false)
	if got, want := s.outcomes(), []string{"1 false"}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	again := s.transmitAll(t, at)
	if len(again) != 1 || len(again[0]) != 1 {
		t.Fatalf("sent again: %v", again)
	}
	if c := again[0][0]; c.reliable != first[1].reliable || c.order != first[1].order || c.mode != first[1].mode {
		t.Errorf("sent again as %+v, first as %+v", c, first[1])
	}
	if next, _ := s.nextTimeout(false); next != at+longestBackoff {
		t.Errorf("next timeout %v, want backed off to %v", next, at+longestBackoff)
	}
	if s.Resent != 1 || s.Lost != 1 {
		t.Errorf("%d sent again, %d lost, want 1 and 1", s.Resent, s.Lost)
	}
}

// TestLateAcknowledgement settles a datagram that counts as lost, before and after it is sent again.
func TestLateAcknowledgement(t *testing.T) {
	for _, resent := range []bool{false, true} {
		s := newSender(0)
		s.enqueueOne(0, codec.Reliable, 8, 1)
		s.transmitAll(t, 0)
		s.advance(time.Second, false)
		if resent {
			s.transmitAll(t, time.Second)
		}
		_ = s.acknowledge(time.Second, one(0))
		if got, want := s.outcomes(), []string{"1 true"}; !slices.Equal(got, want) {
			t.Errorf("resent %v: outcomes %v, want %v", resent, got, want)
		}
		if got := s.transmitAll(t, time.Second); len(got) > 0 {
			t.Errorf("resent %v: sent again after it arrived", resent)
		}
		if resent {
			_ = s.acknowledge(time.Second, one(1))
		}
		if s.Congestion.InFlight != 0 || !s.settled() || len(s.outcomes()) > 0 {
			t.Errorf("resent %v: %d bytes in flight at the end", resent, s.Congestion.InFlight)
		}
	}
}

// TestLateAcknowledgementsGiveTheWindowBack: a path has become slower, so all of the first window seems lost until its
// acknowledgements come.
func TestLateAcknowledgementsGiveTheWindowBack(t *testing.T) {
	s := newSender(0)
	for range firstWindow {
		s.enqueueOne(0, codec.Reliable, 500, 0)
	}
	s.transmitAll(t, 0)
	sent := s.flight.next
	before := [2]int{s.Congestion.Window, s.Congestion.Threshold}
	s.AckedAt = firstTimeout - ms // a sign of life
	s.advance(firstTimeout, false)
	if s.Congestion.Window >= before[0] {
		t.Fatalf("window of %d bytes after the loss of all, %d before", s.Congestion.Window, before[0])
	}
	_ = s.acknowledge(firstTimeout+ms, named(ackRange{0, sent - 1}))
	if after := [2]int{s.Congestion.Window, s.Congestion.Threshold}; after != before || s.Congestion.LossShare > 0.01 {
		t.Errorf("window and threshold %d after late acknowledgements, %d before; share of losses %.2f", after, before,
			s.Congestion.LossShare)
	}
}

// TestNACKFlood asks for everything all the time. Each message is sent once more at once, and then once a round trip.
func TestNACKFlood(t *testing.T) {
	s := newSender(0)
	s.RTT.sample(100 * ms)
	s.RTT.Deviation = 250 * ms // so that only NACKs matter here
	s.enqueueOne(0, codec.Reliable, 8, 0)
	sent := 0
	for now := time.Duration(0); now < time.Second; now += ms {
		sent += len(s.transmitAll(t, now))
		for range 10 {
			_ = s.reject(now, named(ackRange{0, seq24Mask}))
		}
	}
	if sent != 11 {
		t.Errorf("sent %d times within ten round trips, want 11", sent)
	}
}

func TestNACKLeavesUnreliableMessagesTheirTime(t *testing.T) {
	s := newSender(0)
	s.enqueueOne(0, codec.Unreliable, 8, 1)
	s.transmitAll(t, 0)
	_ = s.reject(10*ms, one(0))
	if got := s.outcomes(); len(got) > 0 {
		t.Fatalf("outcomes %v at once", got)
	}
	_ = s.acknowledge(20*ms, one(0)) // it was only overtaken
	if got, want := s.outcomes(), []string{"1 true"}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

// TestRangeExplosion lists all numbers, as often as a datagram can.
func TestRangeExplosion(t *testing.T) {
	all := make([]ackRange, 200)
	for i := range all {
		all[i] = ackRange{0, seq24Mask - 1}
	}
	for _, take := range []func(*sender, []byte) error{
		func(s *sender, body []byte) error { return s.acknowledge(ms, body) },
		func(s *sender, body []byte) error { return s.reject(ms, body) },
	} {
		s := newSender(seq24Mask - 100)
		s.Congestion.Window = 1 << 20
		for range maxFlight {
			s.enqueueOne(0, codec.Reliable, 500, 0)
		}
		if got := len(s.transmitAll(t, 0)); got != maxFlight {
			t.Fatalf("%d datagrams in flight, want %d", got, maxFlight)
		}
		if err := take(s, named(all...)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("200 ranges of everything: %v, want ErrMalformed", err)
		}
		visits := 0
		_ = s.eachNamed(named(all...), func(Seq24) { visits++ })
		if visits > maxFlight {
			t.Errorf("%d numbers visited, want at most %d", visits, maxFlight)
		}
	}
}

// TestFlightIsBounded sends without acknowledgements until no more datagrams are remembered.
func TestFlightIsBounded(t *testing.T) {
	s := newSender(seq24Mask - 100)
	s.Congestion.Window = 1 << 30
	for range 2 * maxFlight {
		s.enqueueOne(0, codec.Reliable, 500, 0)
	}
	if got := len(s.transmitAll(t, 0)); got != maxFlight || len(s.flight.ring) != maxFlight {
		t.Errorf("%d datagrams in flight, %d remembered, want %d", got, len(s.flight.ring), maxFlight)
	}
	s.advance(time.Second, false) // all are lost, so they make room for new ones
	s.Congestion.Window, s.Congestion.Probing = 1<<30, false
	if got := len(s.transmitAll(t, time.Second)); got != maxFlight || len(s.flight.ring) != maxFlight {
		t.Errorf("%d datagrams sent again, %d remembered, want %d", got, len(s.flight.ring), maxFlight)
	}
	if s.Resent != maxFlight {
		t.Errorf("%d messages sent again, want the %d that were lost", s.Resent, maxFlight)
	}
}

// TestOverdueIsNotLost: the loss of an ACK for many datagrams does not count as their loss, and leaves the window as it
// was. Requests of the peer show what was lost.
func TestOverdueIsNotLost(t *testing.T) {
	const sent = 60
	s := newSender(0)
	s.Congestion.Window, s.Congestion.Threshold = 100*s.datagramSize(), 100*s.datagramSize()
	s.Congestion.queue.Lagging = true
	for range sent {
		s.enqueueOne(0, codec.Reliable, 500, 0)
	}
	s.transmitAll(t, 0)
	window := s.Congestion.Window
	_ = s.acknowledge(100*ms, one(sent-1)) // the ACK of all others was lost
	s.advance(time.Second, false)
	if s.Lost != sent-1 || s.Congestion.Window != window || s.Congestion.Losses != 0 {
		t.Fatalf("%d overdue, %d lost, window of %d, want %d, none, and %d", s.Lost, s.Congestion.Losses,
			s.Congestion.Window, sent-1, window)
	}
	_ = s.reject(time.Second, named(ackRange{0, sent - 2}))
	_ = s.reject(time.Second, named(ackRange{0, sent - 2}))
	if got := s.Congestion.Losses; got != sent-1 {
		t.Errorf("%d lost after a request, want %d", got, sent-1)
	}
	s.transmitAll(t, time.Second)
	_ = s.reject(2*time.Second, one(s.flight.next.Add(-1)))
	if s.Congestion.Window > window/2 {
		t.Errorf("window of %d after a heavy loss, want at most half of %d", s.Congestion.Window, window)
	}
}

// TestPeerThatRequestsNothing: if a peer has requested nothing, its overdue datagrams count as lost after a while.
func TestPeerThatRequestsNothing(t *testing.T) {
	s := newSender(0)
	const window = 1 << 20
	s.Congestion.Window = window
	s.Congestion.queue.Lagging = true
	for range 2 * mostUnrequested {
		s.enqueueOne(0, codec.Reliable, 500, 0)
	}
	s.transmitAll(t, 0)
	_ = s.acknowledge(100*ms, one(2*mostUnrequested-1))
	s.advance(250*ms, false)
	s.advance(time.Second, false)
	if s.Unasked != mostUnrequested || s.Congestion.Window > window/2 {
		t.Errorf("%d overdue datagrams excused, window of %d, want %d and at most %d", s.Unasked, s.Congestion.Window,
			mostUnrequested, window/2)
	}
}

// TestProbeEnds: a probe has no room left. Any outcome of one of its datagrams ends it, and none of an older one does.
func TestProbeEnds(t *testing.T) {
	for name, outcome := range map[string]func(c *congestion, n Seq24){
		"requested":          func(c *congestion, n Seq24) { c.lost(n, 9, 1000, false) },
		"lost in silence":    func(c *congestion, n Seq24) { c.lost(n, 9, 1000, true) },
		"overdue":            func(c *congestion, n Seq24) { c.overdue(n, 9, 1000, false) },
		"overdue in silence": func(c *congestion, n Seq24) { c.overdue(n, 9, 1000, true) },
	} {
		for n, ends := range map[Seq24]bool{4: false, 5: true} {
			c := newCongestion(1000)
			c.InFlight, c.Probing, c.Probed, c.ProbeRoom = 2000, true, 5, -1
			if outcome(&c, n); c.allows(0) != ends {
				t.Errorf("%s, datagram %d: may send %v, want %v", name, n, !ends, ends)
			}
		}
	}
}

// TestSenderNeverStandsStill plays against peers that acknowledge and request little, each in some seconds of silence
// and talk. A sender with work always sends, or has a time at which it goes on.
func TestSenderNeverStandsStill(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 35))
		s := newSender(0)
		s.Congestion.queue.Lagging = seed%2 == 0
		asks, quiet := rng.IntN(3), 1+rng.IntN(30)
		for now := 10 * ms; now < 40*time.Second; now += 10 * ms {
			if s.small.size+s.bulk.size < 20 {
				s.enqueueOne(now, codec.ReliableOrdered, 100+rng.IntN(2000), 0)
			}
			s.advance(now, false)
			s.transmitAll(t, now)
			if span := s.flight.next.Sub(s.flight.Base); span > 0 && rng.IntN(quiet) == 0 {
				n := s.flight.Base.Add(rng.IntN(span))
				if rng.IntN(8) < asks {
					_ = s.reject(now, one(n))
				} else {
					_ = s.acknowledge(now, one(n))
				}
			}
			s.outcomes()
			if _, ok := s.nextTimeout(false); !ok && s.hasWork(true) && !s.mayTransmit(now, 0) {
				t.Fatalf("seed %d: stands still at %v: %+v", seed, now, s.Congestion)
			}
		}
	}
}
