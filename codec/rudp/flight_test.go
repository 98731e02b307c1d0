package rudp

import (
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestFlight: the first packet of the flight has number 0 after base, near the wrap-around.
func TestFlight(t *testing.T) {
	for _, base := range []seq{0, 1, 65535, 65520, 32760} {
		f := newFlight(start, base)
		for i := range codec.Receipt(20) {
			f.carry(f.number(start.Add(ms)), i+1)
		}
		if f.allows(base-2) || !f.allows(base-1) || !f.allows(base+19) || f.allows(base+20) || f.allows(base+32768) {
			t.Errorf("base %d: allows is wrong", base)
		}
		a := acks{last: base + 3, bits: 0xa0000000} // packets 2 and 0, not 1
		if lost := f.acknowledge(&a); lost != 1 {
			t.Errorf("base %d: %d lost, want 1", base, lost)
		}
		var delivered, lost []codec.Receipt
		for r, ok, more := f.decide(&a); more; r, ok, more = f.decide(&a) {
			if ok {
				delivered = append(delivered, r)
			} else {
				lost = append(lost, r)
			}
		}
		if !slices.Equal(delivered, []codec.Receipt{1, 3, 4}) || !slices.Equal(lost, []codec.Receipt{2}) {
			t.Errorf("base %d: delivered %v, lost %v", base, delivered, lost)
		}
		if f.allows(base+2) || !f.allows(base+3) {
			t.Errorf("base %d: allows an acknowledgement to go back", base)
		}
		var left []codec.Receipt
		for r, ok := f.unanswered(); ok; r, ok = f.unanswered() {
			left = append(left, r)
		}
		if len(left) != 16 || left[0] != 5 {
			t.Errorf("base %d: left over %v", base, left)
		}
	}
}

// TestFlightIsFull: 33 packets may be unacknowledged.
func TestFlightIsFull(t *testing.T) {
	f := newFlight(start, 65530)
	for n := range maxInFlight {
		if f.isFull() {
			t.Fatalf("full with %d packets", n)
		}
		f.number(start.Add(ms))
	}
	if !f.isFull() {
		t.Error("not full with 33 packets")
	}
	f.acknowledge(&acks{last: 65530})
	if f.isFull() {
		t.Error("full after an acknowledgement")
	}
}

// TestFlightForgetsReceipts: answered receipts leave room for others, even if some receipts are always unanswered.
func TestFlightForgetsReceipts(t *testing.T) {
	f := newFlight(start, 65000)
	for range 10_000 {
		s := f.number(start)
		f.carry(s, 7)
		a := acks{last: s - 10}
		if !f.allows(a.last) {
			continue
		}
		f.acknowledge(&a)
		for _, _, ok := f.decide(&a); ok; _, _, ok = f.decide(&a) {
		}
	}
	if n := cap(f.receipts); n > flightSize {
		t.Errorf("room for %d receipts, with 10 in flight", n)
	}
}

func TestRTTSmooths(t *testing.T) {
	var r rtt
	for _, step := range []struct{ sample, want time.Duration }{
		{100 * ms, 100 * ms}, {180 * ms, 110 * ms}, {30 * ms, 100 * ms},
	} {
		if r.sample(step.sample); time.Duration(r) != step.want {
			t.Errorf("after %v: %v, want %v", step.sample, time.Duration(r), step.want)
		}
	}
}

// TestRTTWithoutNewAck: a packet that acknowledges nothing new adds no sample of the round-trip time, however late it
// arrives.
func TestRTTWithoutNewAck(t *testing.T) {
	c := newServer(t, Options{AppID: 1})
	c.Admit(start, 1)
	one(t, c, start)
	for s := range seq(10) {
		if err := c.Receive(start.Add(time.Duration(s+1)*50*ms), keepAlive(s+1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Stats().RTT; got != 50*ms {
		t.Errorf("RTT %v, want 50 ms", got)
	}
}

func TestRTT(t *testing.T) {
	p := newPair(t, Options{Rate: 20})
	for range 100 {
		p.now = p.now.Add(50 * ms)
		p.client.Advance(p.now)
		d := one(t, p.client, p.now)
		p.now = p.now.Add(30 * ms)
		_ = p.server.Receive(p.now, d)
		p.server.Advance(p.now)
		for _, back := range codectest.Transmit(p.server, p.now) {
			_ = p.client.Receive(p.now.Add(10*ms), back)
		}
	}
	if got := p.client.Stats().RTT; got < 39*ms || got > 41*ms {
		t.Errorf("RTT %v, want 40 ms", got)
	}
}
