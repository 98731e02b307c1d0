package rtype

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// A client that asks again gets the initialisation and the present state, a second after the last time at the
// earliest.
func TestClientAsksAgain(t *testing.T) {
	s := admitted(t, Options{Dialect: Game16}, startHex)
	send(t, s, start, announce8, "00 00000001", "02 00000001 0002", "03 00000001 0002 aa", "00 00000002", "01 00000002")
	codectest.Transmit(s, start)
	now := start.Add(minReplayed - 1)
	receive(t, s, now, startHex)
	wantSent(t, s, now)
	for range 2 {
		now = now.Add(minReplayed)
		receive(t, s, now, startHex, startHex)
		wantSent(t, s, now, exampleParts[Early]...)
		s.Advance(now)
		wantSent(t, s, now, "00 0001", "02 0001 0002", "03 0001 0002 aa")
	}
	s.Advance(now.Add(5 * time.Second))
	wantSent(t, s, now)
	nothing := admitted(t, Options{Dialect: Game16}, startHex)
	receive(t, nothing, now, startHex)
	wantSent(t, nothing, now) // nothing is known
}

// A replay goes out in portions, and waits when the queue is full.
func TestReplayIsPaced(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, Refresh: time.Second}, startHex)
	for i := range 2*portion + 1 {
		send(t, s, start, fmt.Sprintf("00 %08x", i))
	}
	codectest.Transmit(s, start)
	var sent int
	for _, c := range []struct {
		after time.Duration
		want  int
	}{
		{time.Second, portion},
		{time.Second + portionGap, portion},
		{time.Second + 2*portionGap, 1},
		{2*time.Second + 2*portionGap, portion},
	} {
		if got := s.NextTimeout().Sub(start); got != c.after {
			t.Fatalf("next timeout after %v, want %v", got, c.after)
		}
		s.Advance(start.Add(c.after))
		sent = len(codectest.Transmit(s, start))
		if sent != c.want {
			t.Errorf("%d instructions after %v, want %d", sent, c.after, c.want)
		}
	}
	s.options.MaxQueued = 3 * (recordHead + 5)
	now := s.NextTimeout()
	s.Advance(now)
	wantSent(t, s, now, "00 00000020", "00 00000021", "00 00000022")
	now = s.NextTimeout()
	s.Advance(now)
	wantSent(t, s, now, "00 00000023", "00 00000024", "00 00000025")
}

// Deletions are repeated with a few refreshes, unless what they delete exists again. So is the loss of the components
// that an entity had before.
func TestRefreshRepeatsDeletions(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, Refresh: time.Second}, startHex)
	send(t, s, start, "00 00000001", "02 00000001 0003", "02 00000001 0004", "04 00000001 0003", "04 00000001 0004",
		"02 00000001 0004", "00 00000002", "01 00000002", "00 00000003", "02 00000003 0005", "01 00000003", "00 00000003")
	codectest.Transmit(s, start)
	exists := []string{"00 00000001", "00 00000003", "02 00000001 0004"}
	for i := range maxRepeats + 2 {
		want := slices.Clone(exists)
		if i < maxRepeats {
			want = append(want, "04 00000001 0003", "01 00000002", "04 00000003 0005")
		}
		now := s.NextTimeout()
		s.Advance(now)
		wantSent(t, s, now, want...)
		receive(t, s, now, "01")
		codectest.Drain(s)
	}
}

// Of more deletions than the bound the oldest are forgotten.
func TestGoneIsBounded(t *testing.T) {
	var g gone
	m := mirror{max: 1000}
	for i := range uint32(maxGone + 10) {
		g.note(&instruction{op: remove, entity: i}, &m)
	}
	if len(g.ring) != maxGone {
		t.Fatalf("%d deletions remembered", len(g.ring))
	}
	var entities []uint32
	for i := range g.ring {
		in, ok := g.take(i, &m)
		if !ok {
			t.Fatalf("deletion %d is not repeated", i)
		}
		entities = append(entities, in.entity)
	}
	if slices.Min(entities) != 10 || slices.Max(entities) != maxGone+9 {
		t.Errorf("deletions of %d to %d remembered", slices.Min(entities), slices.Max(entities))
	}
}

// A new world, with other components, has nothing of the old one.
func TestOtherComponentsAreAnotherWorld(t *testing.T) {
	s := admitted(t, Options{Dialect: Game16, Refresh: time.Second}, startHex)
	send(t, s, start, announce8, "00 00000001", "00 00000002", "01 00000002", "f00000 0001 01 41 ffff")
	codectest.Transmit(s, start)
	now := s.NextTimeout()
	s.Advance(now)
	wantSent(t, s, now)
	if err := s.Send(now, codec.Message{Payload: codectest.Unhex(t, "02 00000001 0001")}); err != errNoForm {
		t.Errorf("component of the old world: %v", err)
	}
}
