package raknet

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// stockSender is a client that sends reliable messages as stock RakNet 4.081 does. It follows the rules of its
// ReliabilityLayer and its CCRakNetSlidingWindow, which decide how our acknowledgements change its rate. Its handshake
// is ours.
type stockSender struct {
	*simNode
	started bool
	nextRun time.Time // its thread wakes every 10 ms, and for each datagram

	parts    [][]byte // capsules not sent yet; each gets a datagram of its own
	resend   []*stockPart
	number   Seq24
	reliable Seq24
	sent     map[Seq24]stockDatagram // by number, until acknowledged
	out      [][]byte

	rtt, deviation float64 // microseconds; NaN: unset
	window, slow   float64 // cwnd and ssThresh, in bytes
	nextBlock      Seq24
	backedOff      bool
	continuous     bool
	unacked        int
	samples        []time.Duration
	resent         int
}

type stockPart struct {
	capsule []byte
	number  Seq24 // reliable index
	due     time.Time
	done    bool
}

type stockDatagram struct {
	at   time.Time
	part *stockPart
}

const (
	stockTick     = 10 * time.Millisecond
	stockHistory  = 512
	stockMTU      = 1492
	stockPartSize = stockMTU - 60
)

// start replaces the connection that made the handshake by the model.
func (s *stockSender) start(now time.Time) {
	conn := s.conn.(*Conn)
	s.started, s.nextRun = true, now
	s.number, s.reliable = conn.sender.flight.next, conn.sender.flight.Reliable
	s.rtt, s.window = math.NaN(), stockMTU-udpOverhead
	s.sent = make(map[Seq24]stockDatagram)
}

// say queues a reliable message of the given size, in parts if necessary.
func (s *stockSender) say(size int) {
	count := (size + stockPartSize - 1) / stockPartSize
	for i := range count {
		c := capsule{
			mode: codec.Reliable, reliable: s.reliable, split: count > 1, splitCount: uint32(count), splitIndex: uint32(i),
			payload: slices.Repeat([]byte{0x86}, min(stockPartSize, size-i*stockPartSize)),
		}
		s.reliable = s.reliable.Add(1)
		s.parts = append(s.parts, c.append(nil))
	}
}

// Receive implements simnet.Node.
func (s *stockSender) Receive(now time.Time, from, to netip.AddrPort, b []byte) {
	var d datagram
	switch {
	case !s.started:
		s.simNode.Receive(now, from, to, b)
		return
	case d.parse(b) != nil:
		return
	case d.kind == ackDatagram:
		s.each(d.body, func(n Seq24) { s.acked(now, n) })
	case d.kind == nackDatagram:
		s.each(d.body, func(n Seq24) { s.nacked(now, n) })
	}
	s.run(now)
}

func (s *stockSender) each(body []byte, visit func(Seq24)) {
	var r ackReader
	if r.parse(body) != nil {
		return
	}
	for named, ok := r.next(); ok; named, ok = r.next() {
		for n := named.first; !named.last.Before(n); n = n.Add(1) {
			visit(n)
		}
	}
}

// acked is OnAck: every first acknowledgement of a datagram is a sample of the round trip.
func (s *stockSender) acked(now time.Time, n Seq24) {
	d, ok := s.sent[n]
	if !ok || s.number.Sub(n) > stockHistory {
		return
	}
	delete(s.sent, n)
	if !d.part.done {
		d.part.done = true
		s.unacked -= len(d.part.capsule)
		s.resend = slices.DeleteFunc(s.resend, func(p *stockPart) bool { return p == d.part })
	}
	s.samples = append(s.samples, now.Sub(d.at))
	rtt := float64(now.Sub(d.at).Microseconds())
	if math.IsNaN(s.rtt) {
		s.rtt, s.deviation = rtt, rtt
	} else {
		difference := rtt - s.rtt
		s.rtt += .05 * difference
		s.deviation += .05 * (math.Abs(difference) - s.deviation)
	}
	if !s.continuous {
		return
	}
	newBlock := s.nextBlock.Before(n)
	if newBlock {
		s.backedOff, s.nextBlock = false, s.number
	}
	switch {
	case s.window <= s.slow || s.slow == 0:
		s.window += stockMTU
		if s.window > s.slow && s.slow != 0 {
			s.window = s.slow + stockMTU*stockMTU/s.window
		}
	case newBlock:
		s.window += stockMTU * stockMTU / s.window
	}
}

// nacked is OnNAK: the datagram's parts are due at once.
func (s *stockSender) nacked(now time.Time, n Seq24) {
	d, ok := s.sent[n]
	if !ok || d.part.done {
		return
	}
	d.part.due = now
	if s.continuous && !s.backedOff {
		s.slow = s.window / 2
	}
}

// timeout is GetRTOForRetransmission.
func (s *stockSender) timeout() time.Duration {
	if math.IsNaN(s.rtt) {
		return 2 * time.Second
	}
	return min(time.Duration(2*s.rtt+4*s.deviation)*time.Microsecond+30*time.Millisecond, 2*time.Second)
}

// run is Update: first due resends in their order, then new parts as far as the window allows.
func (s *stockSender) run(now time.Time) {
	s.nextRun = now.Add(stockTick)
	for budget := s.unacked; budget > 0 && len(s.resend) > 0 && s.resend[0].due.Before(now); {
		p := s.resend[0]
		s.resend = append(s.resend[1:], p)
		if s.continuous && !s.backedOff && s.window > 2*stockMTU {
			s.slow = max(s.window/2, stockMTU)
			s.window = stockMTU
			s.nextBlock, s.backedOff = s.number, true
		}
		s.resent++
		s.push(now, p)
		budget -= len(p.capsule)
	}
	for budget := int(s.window) - s.unacked; budget > 0 && len(s.parts) > 0 && s.hasRoom(); {
		p := &stockPart{capsule: s.parts[0], number: s.reliable.Add(-len(s.parts))}
		s.parts = s.parts[1:]
		s.resend = append(s.resend, p)
		s.unacked += len(p.capsule)
		s.push(now, p)
		budget -= len(p.capsule)
	}
	s.continuous = len(s.parts) > 0
}

// hasRoom reports whether the next reliable message has a place in the resend buffer. Its 512 places begin with the
// oldest message that is not acknowledged.
func (s *stockSender) hasRoom() bool {
	next := s.reliable.Add(-len(s.parts))
	return !slices.ContainsFunc(s.resend, func(p *stockPart) bool { return next.Sub(p.number) >= stockHistory })
}

func (s *stockSender) push(now time.Time, p *stockPart) {
	p.due = now.Add(s.timeout())
	s.sent[s.number] = stockDatagram{now, p}
	s.out = append(s.out, append(appendDataHeader(nil, s.number, s.continuous, false), p.capsule...))
	s.number = s.number.Add(1)
}

// Advance implements simnet.Node.
func (s *stockSender) Advance(now time.Time) {
	if !s.started {
		s.simNode.Advance(now)
	} else if !now.Before(s.nextRun) {
		s.run(now)
	}
}

// Transmit implements simnet.Node.
func (s *stockSender) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if !s.started {
		return s.simNode.Transmit(now, b)
	}
	if len(s.out) == 0 {
		return b, s.self, s.peer, false
	}
	b = append(b, s.out[0]...)
	s.out = s.out[1:]
	return b, s.self, s.peer, true
}

// NextTimeout implements simnet.Node.
func (s *stockSender) NextTimeout() time.Time {
	if !s.started {
		return s.simNode.NextTimeout()
	}
	return s.nextRun
}

// stockWorld connects a stock sender and our server in good network conditions, and then sets the given ones.
func stockWorld(t *testing.T, seed uint64, weather simnet.Weather) (net *simnet.Net, s *stockSender, server *simNode) {
	t.Helper()
	net = simnet.New(t, seed, simnet.Weather{Latency: weather.Latency})
	server = &simNode{self: linkServer, peer: linkClient, p: New(Options{})}
	s = &stockSender{simNode: &simNode{self: linkClient, peer: linkServer}}
	s.conn = New(Options{}).Dial(net.Now(), linkServer, codec.Hello{})
	net.Add(server, linkServer)
	net.Add(s, linkClient)
	net.Run(time.Second)
	if !s.connected || !server.connected {
		t.Fatal("not connected within a second")
	}
	net.SetWeather(weather)
	s.start(net.Now())
	return net, s, server
}

// TestStockSendersKeepTheirPace makes stock clients send a megabyte over lossy paths. The repetitions in our
// acknowledgements must not lengthen their measured round trip, and therefore their timeout. Without repetitions the
// medians are 2.5, 4.3 and 9.5 s.
func TestStockSendersKeepTheirPace(t *testing.T) {
	const size = 1_000_000
	for _, c := range []struct {
		loss   float64
		median time.Duration
	}{{0, 100 * ms}, {.05, 3 * time.Second}, {.1, 5 * time.Second}, {.2, 11 * time.Second}} {
		var took []time.Duration
		var worst time.Duration
		for seed := range uint64(20) {
			t.Run(fmt.Sprint(c.loss, " ", seed), func(t *testing.T) { // a trace of only the failing runs
				net, s, server := stockWorld(t, seed, simnet.Weather{Loss: c.loss, Latency: 100 * time.Microsecond})
				start := net.Now()
				s.say(size)
				for len(server.got) == 0 && net.Now().Sub(start) < 5*time.Minute {
					net.Run(10 * ms)
				}
				if len(server.got) == 0 || len(server.got[0].payload) != size {
					t.Fatalf("%d messages came", len(server.got))
				}
				took = append(took, server.got[0].at.Sub(start))
				worst = max(worst, slices.Max(s.samples))
			})
		}
		if len(took) < 20 {
			continue
		}
		slices.Sort(took)
		t.Logf("loss %v: median %v, %v to %v; longest sample %v", c.loss, took[10], took[0], took[19], worst)
		if took[10] > c.median || worst > repeatWithin+2*streamAckDelay {
			t.Errorf("loss %v: a median of %v, want %v at most; samples up to %v", c.loss, took[10], c.median, worst)
		}
	}
}

// TestAcknowledgementsAreRepeated: in a game of 30 ticks a second a stock client must not repeat everything after the
// loss of an ACK. Without repetitions in ACKs it sends 1,400 of 6,000 messages again, half of them for a lost ACK.
func TestAcknowledgementsAreRepeated(t *testing.T) {
	const messages, tick = 600, 33 * ms
	resent := 0
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			net, s, server := stockWorld(t, seed, simnet.Weather{Loss: .1, Latency: 100 * time.Microsecond})
			for i := range messages {
				net.After(time.Duration(i)*tick, func() { s.say(20) })
			}
			net.Run(messages*tick + 5*time.Second)
			if len(server.got) != messages {
				t.Fatalf("%d messages of %d came", len(server.got), messages)
			}
			resent += s.resent
		})
	}
	if resent > 1000 {
		t.Errorf("%d of %d messages were sent again, want 1,000 at most", resent, 10*messages)
	}
}
