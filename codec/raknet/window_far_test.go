package raknet

import (
	"testing"
	"time"

	"tidegate/codec"
)

// TestForgedFarMessages lets a forger take numbers far ahead, at once or by the rule for a peer that waits. The genuine
// messages of these numbers count as well.
func TestForgedFarMessages(t *testing.T) {
	for name, numbers := range map[string][]Seq24{
		"near": {2047}, "repeated": {5050}, "at the end": {maxReliableSpan - 1},
		"climbing": {2000, 4000, 6000, 8000, 10_000, 12_000, 14_000, 16_000},
	} {
		f := newFeeder(t)
		for i := range Seq24(50) {
			f.feed(orderedCapsule(i, i, 8))
		}
		for _, n := range numbers {
			forged := capsule{mode: codec.Reliable, reliable: n, payload: []byte{0x86, 9, 9, 9}}
			taken, _ := f.feed(forged)
			f.at += jamPatience + time.Millisecond
			if again, _ := f.feed(forged); taken+again != 1 {
				t.Fatalf("%s: the forged message %d came %d times", name, n, taken+again)
			}
		}
		for i := Seq24(50); i < maxReliableSpan+3000; i++ {
			f.at += time.Millisecond
			if n, err := f.feed(orderedCapsule(i, i, 8)); n != 1 {
				t.Fatalf("%s: message %d: %d messages, %v", name, i, n, err)
			}
		}
	}
}

// TestGiantBehindARefusedOne lets a forger guess the due number of a session often in one datagram, for a part of a
// message that is too large. Sightings of such parts end a session, so one datagram must not have many.
func TestGiantBehindARefusedOne(t *testing.T) {
	l := newConnected(t, Options{})
	c := l.client
	base := c.receiver.reliable.base
	giant := capsule{mode: codec.Reliable, split: true, splitCount: 1 << 20, payload: []byte{0x86}}
	for range 2 {
		first := giant
		first.reliable = base.Add(1500)
		b := first.append(appendDataHeader(nil, c.receiver.datagrams.next.Add(3), false, false))
		for i := range 75 {
			part := giant
			part.reliable = base.Add(12 - i/3)
			b = part.append(b)
		}
		_ = c.Receive(l.now, b)
		l.now = l.now.Add(jamPatience / 2)
	}
	if c.phase != connected || c.receiver.giant.GiantSightings > 0 {
		t.Errorf("phase %d, %d sightings", c.phase, c.receiver.giant.GiantSightings)
	}
}
