package rtype

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestClientAsksAgain: a client that asks again gets the initialisation and the present state, at most once per
// second.
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
	wantSent(t, nothing, now) // nothing to send
}

// TestReplayIsPaced: a replay is sent in portions, and waits while the queue is full.
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

// TestRefreshRepeatsDeletions: a few refreshes repeat creates, attaches without data and deletions. Their number is
// limited, because each superfluous create leaks an entity in real clients, and an attach resets a component. Only
// deletions that still hold are repeated. The loss of an entity's former components is repeated too.
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

// TestDeletionsAreBounded: beyond the bound the oldest deletions are forgotten.
func TestDeletionsAreBounded(t *testing.T) {
	var g deletionLog
	m := mirror{max: 1000}
	for i := range uint32(maxDeletions + 10) {
		g.note(&instruction{op: remove, entity: i}, &m)
	}
	if len(g.ring) != maxDeletions {
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
	if slices.Min(entities) != 10 || slices.Max(entities) != maxDeletions+9 {
		t.Errorf("deletions of %d to %d remembered", slices.Min(entities), slices.Max(entities))
	}
}

// TestOtherComponentsAreAnotherWorld: a new world with other components contains nothing of the old one.
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

// TestRefreshRepeatsData: a refresh repeats the components' data while they exist. It leaves out data sent since the
// last refresh, and data that the client updates itself.
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

// TestRefreshAttachesForTheDocument: a document's client gets a component's data right behind a repeated attach, since
// the attach resets the component.
func TestRefreshAttachesForTheDocument(t *testing.T) {
	s := admitted(t, Options{Dialect: Document, Refresh: time.Second, Components: worldSizes}, "01")
	send(t, s, start, announce8, "00 00000001", "02 00000001 0001", "03 00000001 0001 aabb", "02 00000001 0002")
	codectest.Transmit(s, start)
	s.Advance(s.NextTimeout())
	wantSent(t, s, start, "000001 0200010001 0300010001aabb 0200010002")
	s.Advance(s.NextTimeout())
	wantSent(t, s, start, "000001 0200010001 0300010001aabb 0200010002 0300010001aabb")
}

// TestResetWorldDeletes: a restarted server has another world. All the client's entities of the old one are deleted
// first.
func TestResetWorldDeletes(t *testing.T) {
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

// TestResetWorldInAReplay: a larger world is being told when the server restarts.
func TestResetWorldInAReplay(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32}, startHex)
	send(t, s, start, announce8)
	for i := range 4 * portion {
		send(t, s, start, fmt.Sprintf("00 %08x", i))
	}
	codectest.Transmit(s, start)
	now := start.Add(2 * minReplayed)
	receive(t, s, now, startHex)
	s.Advance(now) // the first portion
	if s.replay.at == 0 || s.replay.stage == replayed {
		t.Fatalf("the replay is at %d of stage %d, want one under way", s.replay.at, s.replay.stage)
	}
	s.ResetWorld(now)
	send(t, s, now, "00 00000001")
	for range 8 {
		codectest.Transmit(s, now)
		now = now.Add(time.Second)
		s.Advance(now)
	}
}
