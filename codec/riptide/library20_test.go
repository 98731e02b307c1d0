package riptide

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// receiver20 counts reliable messages like a receiver of Riptide 2.0, with its faults.
// docs/protocols/riptide.md#duplicates
type receiver20 struct {
	last   seq
	bits   uint16
	filter uint64 // numbers that have left bits, newest first
}

// receive reports whether the library would deliver message s, and returns its acknowledgement.
func (r *receiver20) receive(s seq) (deliver bool, a ack) {
	deliver = true
	gap := s.minus(r.last)
	if gap > 0 {
		r.filter <<= gap
	}
	switch {
	case gap == 0:
		deliver = false
	case gap > 80, gap < -80:
	case gap > 16:
		r.filter |= uint64(r.bits) << (gap - 16)
		r.bits = 0
		deliver = setBit(&r.filter, gap-17)
	case gap > 0:
		shifted := uint64(r.bits) << gap
		r.filter |= shifted >> 16
		r.bits = uint16(shifted)
		deliver = setBit(&r.bits, gap-1)
		r.last = s
	case gap >= -16:
		deliver = setBit(&r.bits, -gap-1)
	default:
		deliver = setBit(&r.filter, -gap-17)
	}
	return deliver, ack{last: r.last, bits: r.bits, forSeq: s}
}

// setBit sets bit i and reports whether it was clear.
func setBit[T uint16 | uint64](bits *T, i int) bool {
	clear := *bits&(1<<i) == 0
	*bits |= 1 << i
	return clear
}

// sender20 remembers acknowledged messages like a sender of Riptide 2.0.
type sender20 struct {
	last    seq
	bits    uint16
	pending map[seq]bool
	resent  []seq
}

// acknowledged takes an Ack, or an AckExtra, which also acknowledges one more message.
func (s *sender20) acknowledged(a ack) {
	if a.forSeq != a.last {
		delete(s.pending, a.forSeq)
	} else {
		delete(s.pending, a.last)
	}
	gap := a.last.minus(s.last)
	switch {
	case gap > 0:
		for i := 1; i < gap; i++ {
			s.bits <<= 1
			s.check(s.last - 16 + seq(i))
		}
		s.bits = s.bits<<1 | a.bits
		if gap <= 16 {
			s.bits |= 1 << (gap - 1)
		}
		s.last = a.last
		s.check(s.last - 16)
	case gap < 0:
		if gap >= -16 {
			s.bits |= 1 << (-gap - 1)
		}
		delete(s.pending, a.last)
	default:
		s.bits |= a.bits
		s.check(s.last - 16)
	}
}

// check settles message n, which is about to leave the bits: it was acknowledged, or is sent again.
func (s *sender20) check(n seq) {
	if s.bits&0x8000 != 0 {
		delete(s.pending, n)
	} else if s.pending[n] {
		s.resent = append(s.resent, n)
	}
}

// TestReceiver20IsTheLibrary: the receiver of the captures loses count like receiver20.
func TestReceiver20IsTheLibrary(t *testing.T) {
	for _, c := range loadCaptures(t) {
		if c.dialect() != V20 || c.scenario == "reliable-sequence-wrap" {
			continue
		}
		for _, from := range []string{"client", "server"} {
			for client := range 2 {
				var r receiver20
				for _, l := range c.Of(client) {
					if l.From != from || v20.kindOf(l.Datagram) != kindAck {
						continue
					}
					want := readAck(t, V20, l.Datagram)
					if _, got := r.receive(want.forSeq); got != want {
						t.Errorf("%s: %s acknowledged by %+v, here %+v", c.scenario, from, want, got)
					}
				}
			}
		}
	}
}

// exchange20 is our client that sends to a receiver of 2.0 over a path with loss, duplication and delay.
type exchange20 struct {
	c         *Conn
	r         receiver20
	rng       *rand.Rand
	now       time.Time
	loss      float64
	toPeer    []arrival
	toUs      []arrival
	delivered map[uint16]int
}

func newExchange20(t *testing.T, seed uint64, o Options, loss float64) *exchange20 {
	o.Version, o.first = V20, 65500
	x := &exchange20{
		c: newPair(t, o).client, r: receiver20{last: 65500, bits: 0xffff, filter: 1<<64 - 1},
		rng: rand.New(rand.NewPCG(seed, 20)), now: start, loss: loss, delivered: map[uint16]int{},
	}
	x.c.rtt.measure(40 * time.Millisecond)
	x.c.ticker.next = start.Add(time.Hour)
	return x
}

// run sends n messages, burst by burst, and continues until all are acknowledged.
func (x *exchange20) run(t *testing.T, n, burst int) {
	for sent := 0; sent < n || x.c.Stats().Queued > 0; {
		if x.now.Sub(start) > time.Hour || x.c.state != connected {
			t.Fatalf("after %v %d bytes wait in state %d", x.now.Sub(start), x.c.Stats().Queued, x.c.state)
		}
		for range min(burst, n-sent) {
			m := codec.Message{Mode: codec.Reliable, ID: uint16(sent), HasID: true, Receipt: 1}
			if err := x.c.Send(x.now, m); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		for range 10 {
			x.tick()
		}
	}
}

// tick advances by 10 ms.
func (x *exchange20) tick() {
	x.now = x.now.Add(10 * time.Millisecond)
	x.c.heard = x.now
	x.c.Advance(x.now)
	for _, d := range x.arrived(&x.toPeer) {
		if v20.kindOf(d) != kindReliable {
			continue
		}
		var h userHeader
		if _, err := h.parse(v20, d); err != nil {
			panic(err)
		}
		deliver, a := x.r.receive(h.seq)
		if deliver {
			x.delivered[h.id]++
		}
		x.toss(&x.toUs, a.append(v20, nil))
	}
	for _, d := range x.arrived(&x.toUs) {
		_ = x.c.Receive(x.now, d)
		codectest.Drain(x.c)
	}
	for _, d := range codectest.Transmit(x.c, x.now) {
		x.toss(&x.toPeer, d)
	}
}

// toss sends d never, once or twice. Each copy arrives after 20 to 60 ms.
func (x *exchange20) toss(to *[]arrival, d []byte) {
	if x.rng.Float64() < x.loss {
		return
	}
	for range 1 + x.rng.IntN(10)/9 {
		*to = append(*to, arrival{x.now.Add(time.Duration(20+x.rng.IntN(40)) * time.Millisecond), d})
	}
}

func (x *exchange20) arrived(from *[]arrival) (datagrams [][]byte) {
	rest := (*from)[:0:0]
	for _, a := range *from {
		if a.at.After(x.now) {
			rest = append(rest, a)
		} else {
			datagrams = append(datagrams, a.datagram)
		}
	}
	*from = rest
	return datagrams
}

// counts returns how many of n messages were never delivered, and how many more than once.
func (x *exchange20) counts(n int) (missing, repeated int) {
	for id := range n {
		switch times := x.delivered[uint16(id)]; {
		case times == 0:
			missing++
		case times > 1:
			repeated++
		}
	}
	return missing, repeated
}

// TestSendTo20Exactly: with at most 16 messages under way, the default, the library's receiver delivers each exactly
// once, on any path.
func TestSendTo20Exactly(t *testing.T) {
	const n = 400
	for seed := range uint64(100) {
		x := newExchange20(t, seed, Options{}, 0.2)
		x.run(t, n, 40)
		if missing, repeated := x.counts(n); missing+repeated > 0 {
			t.Fatalf("seed %d: %d messages missing, %d repeated", seed, missing, repeated)
		}
	}
}

// TestSendTo20Fast: with more messages under way it loses count. It delivers some twice and some never, though all are
// acknowledged.
func TestSendTo20Fast(t *testing.T) {
	const n = 400
	missing, repeated := 0, 0
	for seed := range uint64(100) {
		x := newExchange20(t, seed, Options{MaxInFlight: windowSize}, 0.2)
		x.run(t, n, 40)
		m, r := x.counts(n)
		missing, repeated = missing+m, repeated+r
	}
	if missing == 0 || repeated == 0 {
		t.Errorf("%d messages missing, %d repeated: the default of MaxInFlight is needlessly low", missing, repeated)
	}
}

// TestReceiveFrom20: our acknowledgements settle all messages of a sender of 2.0, none before its delivery.
func TestReceiveFrom20(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 21))
		const n = 300
		first := seq(65400)
		p := newPair(t, Options{Version: V20, first: first - 1})
		s := sender20{last: first - 1, bits: 0xffff, pending: map[seq]bool{}}
		delivered := map[seq]int{}
		for i := range seq(n) {
			s.pending[first+i] = true
		}
		for round := 0; len(s.pending) > 0; round++ {
			if round > 1000 {
				t.Fatalf("seed %d: %d messages are never settled", seed, len(s.pending))
			}
			for i := range seq(n) { // in the order of numbers, so that every run is the same
				if !s.pending[first+i] || rng.IntN(4) == 0 {
					continue
				}
				h := userHeader{reliable: true, seq: first + i, id: 1}
				err := p.server.Receive(p.now, v20.append(nil, kindReliable, h.append(v20, nil), nil, 0))
				if err == nil {
					delivered[first+i]++
				} else if !errors.Is(err, codec.ErrDuplicate) {
					t.Fatalf("seed %d: number %d: %v", seed, first+i, err)
				}
				codectest.Drain(p.server)
				for _, d := range codectest.Transmit(p.server, p.now) {
					if rng.IntN(4) > 0 {
						s.acknowledged(readAck(t, V20, d))
					}
				}
				for i := range seq(n) {
					if !s.pending[first+i] && delivered[first+i] != 1 {
						t.Fatalf("seed %d: number %d settled, delivered %d times", seed, first+i, delivered[first+i])
					}
				}
			}
		}
	}
}
