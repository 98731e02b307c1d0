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

// Creates, attaches without data and deletions are repeated with a few refreshes: real clients leak an entity by each
// create too many, and reset a component by an attach. Of deletions only those count that still hold. So is the loss of
// the components repeated that an entity had before.
func TestRefreshRepeatsDeletions(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, Refresh: time.Second}, startHex)
	send(t, s, start, "00 00000001", "02 00000001 0003", "02 00000001 0004", "04 00000001 0003", "04 00000001 0004",
		"02 00000001 0004", "00 00000002", "01 00000002", "00 00000003", "02 00000003 0005", "01 00000003", "00 00000003")
	codectest.Transmit(s, start)
	exists := []string{"00 00000001", "00 00000003", "02 00000001 0004"}
	for i := range maxRepeats + 2 {
		var want []string
		if i < maxRepeats {
			want = append(slices.Clone(exists), "04 00000001 0003", "01 00000002", "04 00000003 0005")
		}
		now := s.NextTimeout()
		s.Advance(now)
		wantSent(t, s, now, want...)
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

// A refresh repeats what components hold for as long as they do, but for what was sent since the last one and what the
// client itself updates.
func TestRefreshRepeatsData(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, Refresh: time.Second}, startHex)
	send(t, s, start, "00 00000001", "03 00000001 0003 aa", "03 00000001 0004 bb")
	codectest.Transmit(s, start)
	for range maxRepeats + 1 {
		s.Advance(s.NextTimeout())
		codectest.Transmit(s, start)
	}
	for _, c := range []struct {
		sent, heard string
		want        []string
	}{
		{"", "", []string{"03 00000001 0003 aa", "03 00000001 0004 bb"}},
		{"", "", []string{"03 00000001 0003 aa", "03 00000001 0004 bb"}},
		{"03 00000001 0003 cc", "", []string{"03 00000001 0004 bb"}},
		{"", "03 00000001 0004 dd", []string{"03 00000001 0003 cc"}},
		{"03 00000001 0004 ee", "", []string{"03 00000001 0003 cc"}},
		{"", "", []string{"03 00000001 0003 cc", "03 00000001 0004 ee"}},
	} {
		now := s.NextTimeout()
		if c.sent != "" {
			send(t, s, now, c.sent)
			codectest.Transmit(s, now)
		}
		if c.heard != "" {
			receive(t, s, now, c.heard)
			codectest.Drain(s)
		}
		s.Advance(now)
		wantSent(t, s, now, c.want...)
	}
}

// A document's client gets a component's data right behind a repeated attach, since that resets the component.
func TestRefreshAttachesForTheDocument(t *testing.T) {
	s := admitted(t, Options{Dialect: Document, Refresh: time.Second, Components: worldSizes}, "01")
	send(t, s, start, announce8, "00 00000001", "02 00000001 0001", "03 00000001 0001 aabb", "02 00000001 0002")
	codectest.Transmit(s, start)
	s.Advance(s.NextTimeout())
	wantSent(t, s, start, "000001 0200010001 0300010001aabb 0200010002")
	s.Advance(s.NextTimeout())
	wantSent(t, s, start, "000001 0200010001 0300010001aabb 0200010002 0300010001aabb")
}

// A server that was started again has another world: all that the client has of the old one is deleted first.
func TestRenewDeletesTheWorld(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32}, startHex)
	send(t, s, start, announce8, "00 00000001", "02 00000001 0001", "00 00000002", "00 00000003", "01 00000002")
	codectest.Transmit(s, start)
	s.ResetWorld(start)
	send(t, s, start, announce8, "00 00000001")
	wantSent(t, s, start, "01 00000001", "01 00000003", "00 00000001")
	now := start.Add(2 * minReplayed)
	receive(t, s, now, startHex)
	codectest.Transmit(s, now)
	s.Advance(now)
	wantSent(t, s, now, "00 00000001")
}
