package raknet

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// cloudburstSender sends as CloudburstMC's library does (RakSessionCodec and RakSlidingWindow). It numbers a message
// when the game sends it, and sends nothing new while as many bytes as its window has are not acknowledged. It checks
// each acknowledgement against the receiver's state. Its handshake is ours.
type cloudburstSender struct {
	*simNode
	t       testing.TB
	to      *simNode
	started bool
	nextRun time.Time
	out     [][]byte

	queue    cloudburstQueue
	weights  [4]int // of the next message of each priority
	least    int
	number   Seq24
	reliable Seq24
	order    [maxChannels]Seq24
	sequence Seq24
	splitID  uint16

	sent           map[Seq24]*cloudburstDatagram
	named          [2][]Seq24 // by acknowledgements and requests since the last tick
	rtt, deviation float64    // milliseconds; negative: unset
	window, slow   float64
	unacked        int
	block          Seq24
	backedOff      bool
}

type cloudburstDatagram struct {
	parts   []*cloudburstPart
	at, due time.Time
	size    int
	isNew   bool
}

type cloudburstPart struct {
	capsule
	weight, turn int
}

type cloudburstQueue []*cloudburstPart

func (q cloudburstQueue) Len() int      { return len(q) }
func (q cloudburstQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *cloudburstQueue) Push(x any)   { *q = append(*q, x.(*cloudburstPart)) }
func (q cloudburstQueue) Less(i, j int) bool {
	return q[i].weight < q[j].weight || q[i].weight == q[j].weight && q[i].turn < q[j].turn
}

func (q *cloudburstQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// cloudburstPair connects a model with our server, and then sets the weather.
func cloudburstPair(t testing.TB, seed uint64, o Options, weather simnet.Weather) (*simnet.Net, *cloudburstSender) {
	t.Helper()
	net := simnet.New(t, seed, simnet.Weather{Latency: ms})
	to := &simNode{self: linkServer, peer: linkClient, p: New(o)}
	s := &cloudburstSender{simNode: &simNode{self: linkClient, peer: linkServer}, t: t, to: to}
	s.conn = New(o).Dial(net.Now(), linkServer, codec.Hello{})
	net.Add(to, linkServer)
	net.Add(s, linkClient)
	net.Run(time.Second)
	if !s.connected || !to.connected {
		t.Fatal("not connected within a second")
	}
	net.SetWeather(weather)
	conn := s.conn.(*Conn)
	s.started, s.nextRun = true, net.Now()
	s.number, s.reliable = conn.sender.flight.next, conn.sender.flight.Reliable
	s.order[0] = conn.sender.channel(0).Order
	s.window, s.rtt = stockMTU-udpOverhead, -1
	s.sent = make(map[Seq24]*cloudburstDatagram)
	s.resetWeights()
	return net, s
}

func (s *cloudburstSender) resetWeights() {
	for p := range s.weights {
		s.weights[p] = p<<p + p
	}
}

// weight is getNextWeight. Unlike the original's, it compares the wrong way round. So the first message after the
// queue was empty keeps a weight of the time before, and those behind it begin again at the least.
func (s *cloudburstSender) weight(p stockPriority) int {
	next := s.weights[p]
	if len(s.queue) == 0 {
		s.resetWeights()
	} else if next >= s.least {
		next = s.least + int(p)<<p + int(p)
		s.weights[p] = next + (int(p)+1)<<p + int(p)
	}
	s.least = next - int(p)<<p + int(p)
	return next
}

// say queues a message of at least 7 bytes. One in parts is reliable.
func (s *cloudburstSender) say(p stockPriority, m codec.Mode, channel uint8, id, size int) {
	if size > stockPartSize && !m.IsReliable() {
		m = codec.Reliable
	}
	payload := slices.Repeat([]byte{0x86}, size)
	payload[1], payload[2] = byte(m), channel
	binary.BigEndian.PutUint32(payload[3:], uint32(id))
	c := capsule{mode: m, channel: channel}
	switch {
	case isOrdered(m):
		c.order, s.order[channel] = s.order[channel], s.order[channel].Add(1)
	case isSequenced(m):
		c.order, c.sequence, s.sequence = s.order[channel], s.sequence, s.sequence.Add(1)
	}
	weight := s.weight(p)
	if size > stockPartSize {
		c.split, c.splitID, c.splitCount = true, s.splitID, uint32((size+stockPartSize-1)/stockPartSize)
		s.splitID++
	}
	for part := range slices.Chunk(payload, stockPartSize) {
		c.payload = part
		if m.IsReliable() {
			c.reliable, s.reliable = s.reliable, s.reliable.Add(1)
		}
		heap.Push(&s.queue, &cloudburstPart{c, weight, int(s.reliable)})
		c.splitIndex++
	}
}

// Receive implements simnet.Node.
func (s *cloudburstSender) Receive(now time.Time, from, to netip.AddrPort, b []byte) {
	var d datagram
	if !s.started {
		s.simNode.Receive(now, from, to, b)
	} else if d.parse(b) == nil && d.kind != dataDatagram {
		new(stockSender).each(d.body, func(n Seq24) {
			s.named[d.kind-ackDatagram] = append(s.named[d.kind-ackDatagram], n)
		})
	}
}

// run is internalFlush.
func (s *cloudburstSender) run(now time.Time) {
	s.nextRun = now.Add(10 * ms)
	for kind, named := range s.named {
		for _, n := range named {
			d := s.sent[n]
			if d == nil {
				continue
			}
			delete(s.sent, n)
			if kind == 0 {
				s.acked(now, n, d)
				continue
			}
			if !s.backedOff {
				s.slow = s.window * .75
			}
			s.push(now, d)
		}
		s.named[kind] = named[:0]
	}
	s.resendStale(now)
	s.sendNew(now)
}

func (s *cloudburstSender) acked(now time.Time, n Seq24, d *cloudburstDatagram) {
	for _, p := range d.parts {
		if p.mode.IsReliable() && !s.to.conn.(*Conn).receiver.reliable.arrived(p.reliable) {
			s.t.Fatalf("datagram %d is acknowledged, and its reliable message %d is not taken", n, p.reliable)
		}
	}
	s.unacked -= d.size
	rtt := float64(now.Sub(d.at).Milliseconds())
	if s.rtt < 0 {
		s.rtt, s.deviation = rtt, rtt
	} else {
		difference := rtt - s.rtt
		s.rtt += .05 * difference
		s.deviation += .05 * (max(difference, -difference) - s.deviation)
	}
	isNew := s.block.Before(n)
	if isNew {
		s.backedOff, s.block = false, 0 // the library takes the number of the datagrams that came
	}
	switch {
	case s.window <= s.slow || s.slow == 0:
		if s.window += stockMTU; s.window > s.slow && s.slow != 0 {
			s.window = s.slow + stockMTU*stockMTU/s.window
		}
	case isNew:
		s.window += stockMTU * stockMTU / s.window
	}
}

func (s *cloudburstSender) resendStale(now time.Time) {
	var due []Seq24
	for n, d := range s.sent {
		if !d.due.After(now) {
			due = append(due, n)
		}
	}
	slices.Sort(due)
	for _, n := range due {
		d := s.sent[n]
		delete(s.sent, n)
		s.push(now, d)
	}
	if len(due) > 0 && !s.backedOff && s.window > 2*stockMTU {
		s.slow, s.window = max(s.window/2, stockMTU), stockMTU
		s.block, s.backedOff = s.number, true
	}
}

func (s *cloudburstSender) sendNew(now time.Time) {
	d := &cloudburstDatagram{at: now, isNew: true, size: datagramHeaderSize}
	for budget := int(s.window) - s.unacked; len(s.queue) > 0 && s.queue[0].size() <= budget; {
		p := heap.Pop(&s.queue).(*cloudburstPart)
		budget -= p.size()
		if d.size+p.size() > stockMTU-udpOverhead {
			s.push(now, d)
			d = &cloudburstDatagram{at: now, isNew: true, size: datagramHeaderSize}
		}
		d.parts, d.size = append(d.parts, p), d.size+p.size()
	}
	if len(d.parts) > 0 {
		s.push(now, d)
	}
}

// push sends a datagram under a new number.
func (s *cloudburstSender) push(now time.Time, d *cloudburstDatagram) {
	b := appendDataHeader(nil, s.number, false, false)
	isReliable := false
	for _, p := range d.parts {
		b = p.append(b)
		isReliable = isReliable || p.mode.IsReliable()
	}
	s.out = append(s.out, b)
	if isReliable {
		timeout := 2 * time.Second
		if s.rtt >= 0 {
			timeout = min(timeout, time.Duration(2*s.rtt+4*s.deviation+30)*ms)
		}
		if d.due = now.Add(timeout); d.isNew {
			s.unacked += d.size
		}
		s.sent[s.number] = d
	}
	d.isNew = false
	s.number = s.number.Add(1)
}

// Advance implements simnet.Node.
func (s *cloudburstSender) Advance(now time.Time) {
	if !s.started {
		s.simNode.Advance(now)
	} else if !now.Before(s.nextRun) {
		s.run(now)
	}
}

// Transmit implements simnet.Node.
func (s *cloudburstSender) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
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
func (s *cloudburstSender) NextTimeout() time.Time {
	if !s.started {
		return s.simNode.NextTimeout()
	}
	return s.nextRun
}

// settle waits until all is sent and acknowledged.
func (s *cloudburstSender) settle(net *simnet.Net, limit time.Duration) {
	s.t.Helper()
	net.RunUntil(limit, func() bool { return len(s.queue)+len(s.sent) == 0 || s.to.over })
	if len(s.queue)+len(s.sent) > 0 {
		s.t.Fatalf("after %v %d parts wait, %d datagrams are not acknowledged; over %v", limit, len(s.queue), len(s.sent),
			s.to.over)
	}
}

// check wants each reliable message that is not sequenced once, and the ordered ones of each channel in order.
func (s *cloudburstSender) check(messages int) {
	s.t.Helper()
	came := make([]int, messages)
	last := make(map[uint8]int)
	for _, m := range s.to.got {
		id := int(binary.BigEndian.Uint32(m.payload[3:]))
		came[id]++
		if mode, channel := codec.Mode(m.payload[1]), m.payload[2]; mode == codec.ReliableOrdered {
			if id < last[channel] {
				s.t.Fatalf("channel %d: message %d came behind %d", channel, id, last[channel])
			}
			last[channel] = id
		}
	}
	for id, times := range came {
		m := cloudburstModes[id%len(cloudburstModes)]
		if m.IsReliable() && (times > 1 || times == 0 && !isSequenced(m)) {
			s.t.Fatalf("message %d, of mode %v, came %d times", id, m, times)
		}
	}
}

// cloudburstModes are those of messages by their IDs.
var cloudburstModes = []codec.Mode{
	codec.ReliableOrdered, codec.Reliable, codec.ReliableOrdered, codec.Unreliable, codec.ReliableSequenced,
	codec.ReliableOrdered, codec.UnreliableSequenced,
}

// TestAcknowledgedIsTaken: a datagram is acknowledged only if each of its reliable messages was taken, and then each
// one arrives, on a path that loses, repeats and reorders, and with bounds and pressure that refuse much.
func TestAcknowledgedIsTaken(t *testing.T) {
	const messages = 3000
	for _, test := range []struct {
		name    string
		o       Options
		refuses bool // now and then
		weather simnet.Weather
	}{
		{name: "clear"},
		{name: "loss", weather: simnet.Weather{Loss: .1, Duplication: .05, Latency: 5 * ms, Jitter: 20 * ms}},
		{name: "narrow", o: Options{MaxHeld: 1 << 10, MaxAssembly: 36 << 10, MaxMessage: 10 << 10},
			weather: simnet.Weather{Loss: .02, Duplication: .05, Latency: 20 * ms, Jitter: 100 * ms}},
		{name: "pressure", refuses: true, weather: simnet.Weather{Loss: .05, Latency: 20 * ms, Jitter: 100 * ms}},
	} {
		for _, seed := range simnet.Seeds(2) {
			t.Run(fmt.Sprint(test.name, " ", seed), func(t *testing.T) {
				net, s := cloudburstPair(t, seed, test.o, test.weather)
				rng := rand.New(rand.NewPCG(seed, 1))
				for id := range messages {
					size := 8
					if rng.IntN(20) == 0 {
						size = rng.IntN(10_000) + 8
					}
					s.say(medium, cloudburstModes[id%len(cloudburstModes)], uint8(rng.IntN(3)), id, size)
				}
				if test.refuses {
					for at := time.Duration(0); at < 3*time.Second; at += 100 * ms {
						pressure := []codec.Pressure{codec.NoPressure, codec.Hesitate, codec.Refuse}[rng.IntN(3)]
						net.After(at, func() { s.to.conn.(*Conn).Throttle(net.Now(), pressure) })
					}
					net.After(3*time.Second, func() { s.to.conn.(*Conn).Throttle(net.Now(), codec.NoPressure) })
				}
				s.settle(net, 5*time.Minute)
				s.check(messages)
			})
		}
	}
}

// TestOvertakenMessages: however many messages overtake others in Cloudburst's queue, they wait with us. Were they
// refused, neither side would go on: it sends nothing new before they are acknowledged.
func TestOvertakenMessages(t *testing.T) {
	for _, test := range []struct {
		name   string
		bursts []burst // the second one after the first is over
		within time.Duration
	}{
		{"first of a burst", []burst{{15_000, 8, medium}, {15_000, 8, medium}}, 5 * time.Second},
		{"priority", []burst{{0, 8, medium}, {5000, 8, medium}, {1000, 8, high}}, 15 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			net, s := cloudburstPair(t, 1, Options{}, simnet.Weather{Latency: ms})
			id := 0
			for i, b := range test.bursts {
				for range b.count {
					s.say(b.priority, codec.ReliableOrdered, 0, id*len(cloudburstModes), b.size)
					id++
				}
				if i == 0 {
					s.settle(net, time.Minute)
				}
			}
			begun := net.Now()
			s.settle(net, 2*time.Minute)
			if took := net.Now().Sub(begun); took > test.within || len(s.to.got) != id {
				t.Errorf("%d messages of %d came within %v, want all in %v", len(s.to.got), id, took, test.within)
			}
			for i, m := range s.to.got {
				if got := int(binary.BigEndian.Uint32(m.payload[3:])); got != i*len(cloudburstModes) {
					t.Fatalf("message %d came as number %d", got/len(cloudburstModes), i)
				}
			}
		})
	}
}
