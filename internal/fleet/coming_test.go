package fleet

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/stray"
)

// hall is a proxy that takes sessions in, as long as it has room.
type hall struct {
	Players
	room  int
	taken []string
}

var errFull = errors.New("full")

func (h *hall) CheckPlayers(_ context.Context, records [][]byte) []error {
	faults := make([]error, len(records))
	for i := range faults {
		if h.room == len(h.taken) {
			faults[i] = errFull
		}
	}
	return faults
}

func (h *hall) PutInPlayers(_ context.Context, records [][]byte) []error {
	faults := make([]error, len(records))
	for i, record := range records {
		if h.room == len(h.taken) {
			faults[i] = errFull
			continue
		}
		h.taken = append(h.taken, string(record))
	}
	return faults
}

// moveOf returns a step for clients from 1 on.
func moveOf(step, node, move string, clients ...stray.Key) *moveWire {
	m := &moveWire{Step: step, Node: node, Move: move}
	for _, c := range clients {
		s := sessionWire{Client: c}
		if step == stepOffer {
			s.Record = []byte{'0' + byte(c)}
		}
		m.Sessions = append(m.Sessions, s)
	}
	return m
}

// TestComing offers sessions, gives them, gives them again because the answer was lost, and withdraws others. A session
// is taken in once, or not at all.
func TestComing(t *testing.T) {
	h := &hall{room: 2}
	c := newComing(h)
	step := func(now time.Time, m *moveWire, want ...bool) {
		t.Helper()
		got := c.step(t.Context(), now, m)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s of %s: %v, want %v", m.Step, m.Node, got, want)
			}
		}
	}
	step(noon, moveOf(stepOffer, "a", "m1", 1, 2, 3, 4), true, true, true, true)
	step(noon, moveOf(stepOffer, "b", "m2", 1), false) // another node cannot have it too
	step(noon, moveOf(stepGive, "b", "m1", 1), false)
	step(noon, moveOf(stepGive, "a", "m9", 1), false)
	step(noon, moveOf(stepWithdraw, "b", "m1", 4))
	step(noon, moveOf(stepWithdraw, "a", "m1", 3))
	if len(h.taken) != 0 {
		t.Fatalf("%v before they were given", h.taken)
	}
	step(noon, moveOf(stepGive, "a", "m1", 1, 3), true, false)
	step(noon, moveOf(stepGive, "a", "m1", 1), true) // the answer was lost
	step(noon, moveOf(stepGive, "a", "m1", 2, 4), true, false)
	if len(h.taken) != 2 || h.taken[0] != "1" || h.taken[1] != "2" {
		t.Errorf("taken in: %v", h.taken)
	}
	if c.size != 0 || c.some.Load() || len(c.sessions) != 0 {
		t.Errorf("%d bytes of %d sessions are left", c.size, len(c.sessions))
	}
	step(noon, moveOf(stepOffer, "a", "m3", 5), false) // full
	h.room = 9
	step(noon, moveOf(stepOffer, "a", "m3", 5), true)
	c.expire(noon.Add(comingTime + 1))
	step(noon, moveOf(stepGive, "a", "m3", 5), false)
	if len(c.given) != 0 || len(h.taken) != 2 {
		t.Errorf("%v, %v after the time of an offer", c.given, h.taken)
	}
	c.size = maxComing
	step(noon, moveOf(stepOffer, "a", "m4", 6), false)
}

// TestComingByDatagram takes an offered session in when the node that offered it passes a datagram of its client on:
// the message that gives it was lost. Another node's datagram does not.
func TestComingByDatagram(t *testing.T) {
	h, secret := &hall{room: 1}, stray.Secret{1, 2}
	c := newComing(h)
	d := stray.Datagram{Listener: 1, Client: netip.MustParseAddrPort("192.0.2.1:7")}
	key := secret.Key(d.Listener, d.Client)
	m := moveOf(stepOffer, "a", "m1", 1)
	m.Sessions[0].Client = key
	c.step(t.Context(), noon, m)
	c.heard(t.Context(), noon, "b", secret, []stray.Datagram{d})
	if len(h.taken) != 0 {
		t.Fatal("another node's datagram gives the session")
	}
	c.heard(t.Context(), noon, "a", secret, []stray.Datagram{d})
	if len(h.taken) != 1 {
		t.Error("the session is lost")
	}
}

// TestHostileMoves refuses what no node sends.
func TestHostileMoves(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        ``,
		"no step":        `{"step":"take","node":"a","move":"m","sessions":[{"client":1}]}`,
		"no node":        `{"step":"give","node":"","move":"m","sessions":[{"client":1}]}`,
		"no move":        `{"step":"give","node":"a","move":"","sessions":[{"client":1}]}`,
		"no session":     `{"step":"give","node":"a","move":"m","sessions":[]}`,
		"one twice":      `{"step":"give","node":"a","move":"m","sessions":[{"client":1},{"client":1}]}`,
		"no record":      `{"step":"offer","node":"a","move":"m","sessions":[{"client":1}]}`,
		"a record again": `{"step":"give","node":"a","move":"m","sessions":[{"client":1,"record":"AA=="}]}`,
		"too large":      `{"step":"give","node":"a","move":"m","sessions":[{"client":1}]}` + string(make([]byte, maxMove)),
	} {
		if m, err := parseMove([]byte(text)); !errors.Is(err, errMove) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for name, text := range map[string]string{"nothing": ``, "too few": `{"taken":[true]}`} {
		if _, err := parseMoved([]byte(text), 2); !errors.Is(err, errMove) {
			t.Errorf("answer, %s: %v", name, err)
		}
	}
}
