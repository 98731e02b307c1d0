package riptide

import (
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// fly holds and transmits n messages of one byte each, with receipts from 1 on.
func fly(f *flight, n int) {
	for i := range n {
		f.hold(append(f.spare.take(1), byte(i)), codec.Receipt(i+1))
		f.transmitNext(start, windowSize)
	}
}

func TestFlightAcrossWrap(t *testing.T) {
	f := newFlight(65530)
	fly(&f, 40)
	for i := 39; i >= 0; i-- {
		s := seq(65530) + seq(i)
		m, ok := f.acknowledge(s)
		if !ok || m.receipt != codec.Receipt(i+1) || m.sends != 1 {
			t.Fatalf("message %d landed as %+v, %v", s, m, ok)
		}
		if _, again := f.acknowledge(s); again {
			t.Fatalf("message %d landed twice", s)
		}
	}
	if !f.isIdle() || f.bytes != 0 || f.listed != 0 {
		t.Errorf("after all have landed: idle %v, %d bytes, %d listed", f.isIdle(), f.bytes, f.listed)
	}
}

func TestFlightDueInOrderOfTransmission(t *testing.T) {
	f := newFlight(1)
	fly(&f, 5)
	f.resend(start.Add(time.Second), 1)
	f.acknowledge(3)
	f.resend(start.Add(2*time.Second), 4)
	for _, want := range []seq{2, 5, 1, 4} {
		s, m, ok := f.due()
		if !ok || s != want {
			t.Fatalf("due is %d, %v; want %d", s, ok, want)
		}
		if m.receipt != codec.Receipt(s) {
			t.Fatalf("message %d is held as that of receipt %d", s, m.receipt)
		}
		f.acknowledge(s)
	}
	if _, _, ok := f.due(); ok {
		t.Error("something is due with nothing in the air")
	}
}

func TestFlightLaunchLimit(t *testing.T) {
	f := newFlight(10)
	for range 5 {
		f.hold(f.spare.take(1), 0)
	}
	var launched []seq
	for s, ok := f.transmitNext(start, 2); ok; s, ok = f.transmitNext(start, 2) {
		launched = append(launched, s)
	}
	f.acknowledge(11)
	if s, ok := f.transmitNext(start, 2); ok {
		t.Errorf("%d launched while the oldest is missing", s)
	}
	f.acknowledge(10)
	for s, ok := f.transmitNext(start, 2); ok; s, ok = f.transmitNext(start, 2) {
		launched = append(launched, s)
	}
	if want := []seq{10, 11, 12, 13}; !slices.Equal(launched, want) {
		t.Errorf("launched %v, want %v", launched, want)
	}
}

func TestFlightForgedLandings(t *testing.T) {
	f := newFlight(1)
	if _, ok := f.acknowledge(1); ok {
		t.Error("landed in an empty flight")
	}
	fly(&f, 3)
	f.hold(f.spare.take(1), 0)
	for _, s := range []seq{0, 4, 5, 17, 32768, 65535} {
		if _, ok := f.acknowledge(s); ok {
			t.Errorf("message %d landed, which is not in the air", s)
		}
	}
}

func TestFlightReceipts(t *testing.T) {
	f := newFlight(1)
	fly(&f, 4)
	f.acknowledge(2)
	if got, want := slices.Collect(f.receipts()), []codec.Receipt{1, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("receipts %v, want %v", got, want)
	}
	if got := slices.Collect(f.receipts()); got != nil {
		t.Errorf("receipts given twice: %v", got)
	}
}

func TestBuffersBounded(t *testing.T) {
	var p buffers
	var taken [][]byte
	for range 200 {
		taken = append(taken, p.take(1000))
	}
	for _, b := range taken {
		p.put(b)
	}
	if p.bytes > maxSpare || len(p.spare[2]) != maxSpare/maxMessage {
		t.Errorf("%d buffers of %d bytes kept", len(p.spare[2]), p.bytes)
	}
	if b := p.take(65); cap(b) != 256 {
		t.Errorf("65 bytes got a buffer of %d", cap(b))
	}
	if b := p.take(2000); cap(b) < 2000 {
		t.Errorf("2000 bytes got a buffer of %d", cap(b))
	}
	if p.relax(); p.bytes != 0 || p.spare[2] != nil {
		t.Error("spares kept after relax")
	}
}

func TestRTT(t *testing.T) {
	var r rtt
	for _, step := range []struct {
		what          string
		sample        time.Duration
		claimed       bool
		smooth, again time.Duration
		reported      int16
	}{
		{"claimed", 400 * ms, true, 400 * ms, 480 * ms, 400},
		{"claimed again", 300 * ms, true, 370 * ms, 444 * ms, 370},
		{"measured, which forgets the claims", 100 * ms, false, 100 * ms, 120 * ms, 100},
		{"claims no longer count", 1 * ms, true, 100 * ms, 120 * ms, 100},
		{"measured again: the slowest counts", 200 * ms, false, 130 * ms, 240 * ms, 130},
		{"a minute", time.Minute, false, 18091 * ms, 72 * time.Second, 18091},
	} {
		if step.claimed {
			r.claim(step.sample)
		} else {
			r.measure(step.sample)
		}
		if r.Smooth != step.smooth || r.resend(1) != step.again || r.milliseconds() != step.reported {
			t.Errorf("%s: smooth %v, resend after %v, reported %d", step.what, r.Smooth, r.resend(1), r.milliseconds())
		}
	}
}

func TestRTTBounds(t *testing.T) {
	var r rtt
	if r.resend(1) != firstResend || r.milliseconds() != -1 {
		t.Errorf("unknown: resend after %v, reported %d", r.resend(1), r.milliseconds())
	}
	r.measure(0)
	if got := r.resend(patientSends); got != patientResend {
		t.Errorf("zero, after %d transmissions: resend after %v", patientSends, got)
	}
	if r.Smooth != ms || r.resend(1) != tickResend || r.resend(2) != minimumResend || r.milliseconds() != 50 {
		t.Errorf("zero: smooth %v, resend after %v, reported %d", r.Smooth, r.resend(1), r.milliseconds())
	}
}
