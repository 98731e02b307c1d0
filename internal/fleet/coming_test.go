package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/internal/stray"
	"tidegate/internal/testkit/await"
)

// hall is a proxy that takes sessions in, as long as it has room.
type hall struct {
	Players
	room  int
	taken []string
	at    []string      // where their clients' datagrams arrive
	busy  chan struct{} // closed when it has taken them in
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

func (h *hall) PutInPlayers(all []stray.Session) func(context.Context) []error {
	faults := make([]error, len(all))
	for i, s := range all {
		if h.room == len(h.taken) {
			faults[i] = errFull
			continue
		}
		h.taken, h.at = append(h.taken, string(s.Record)), append(h.at, s.At)
	}
	return func(context.Context) []error {
		<-h.busy
		return faults
	}
}

// moveOf returns a step for clients from 1 on.
func moveOf(step, node, move string, clients ...stray.Key) *moveWire {
	m := &moveWire{Step: step, Node: node, Move: move}
	for _, c := range clients {
		m.Sessions = append(m.Sessions, sessionWire{Client: c, Record: []byte{'0' + byte(c)}})
	}
	return m
}

// TestComing offers sessions, gives them, and gives them again because the answer was lost. A session is taken in
// once, or not at all.
func TestComing(t *testing.T) {
	h := &hall{room: 2, busy: make(chan struct{})}
	close(h.busy)
	c := newComing(h, "here")
	step := func(now time.Time, m *moveWire, want ...bool) {
		t.Helper()
		var got []bool
		if m.Step == stepOffer {
			got = c.offer(t.Context(), now, m)
		} else {
			got = c.give(now, m)(t.Context())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s of %s: %v, want %v", m.Step, m.Node, got, want)
		}
	}
	step(noon, moveOf(stepOffer, "a", "m0", 1), true)
	step(noon, moveOf(stepOffer, "a", "m1", 1, 2, 3), true, true, true) // the answer was lost
	step(noon, moveOf(stepOffer, "b", "m2", 1), false)                  // another node cannot have it too
	step(noon, moveOf(stepGive, "b", "m1", 1), false)
	step(noon, moveOf(stepGive, "a", "m0", 1), false)
	if len(h.taken) != 0 {
		t.Fatalf("%v before they were given", h.taken)
	}
	step(noon, moveOf(stepGive, "a", "m1", 1, 4), true, false)
	step(noon, moveOf(stepGive, "a", "m1", 1), true) // the answer was lost
	step(noon, moveOf(stepGive, "a", "m1", 2, 3), true, false)
	step(noon, moveOf(stepGive, "a", "m1", 2, 3), true, false)
	if len(h.taken) != 2 || h.taken[0] != "1" || h.taken[1] != "2" {
		t.Errorf("taken in: %v", h.taken)
	}
	if c.size != 0 || c.taken.Load() != 2 {
		t.Errorf("%d bytes are left; %d sessions came", c.size, c.taken.Load())
	}
	step(noon, moveOf(stepOffer, "a", "m3", 5), false) // full
	h.room = 9
	step(noon, moveOf(stepOffer, "b", "m3", 1, 5), true, true) // 1 has left again
	if c.size != 2 {
		t.Errorf("%d bytes of two copies", c.size)
	}
	c.expire(noon.Add(comingTime + 1))
	step(noon, moveOf(stepGive, "b", "m3", 1, 5), false, false)
	if len(c.sessions) != 0 || c.size != 0 || len(h.taken) != 2 {
		t.Errorf("%v, %v after the time of an offer", c.sessions, h.taken)
	}
	c.size = maxComing
	step(noon, moveOf(stepOffer, "a", "m4", 6), false)
}

// TestComingTwice gives sessions again while the proxy still takes them in. Both questions have the same answer. A
// question that ends before has none.
func TestComingTwice(t *testing.T) {
	h := &hall{room: 1, busy: make(chan struct{})}
	c := newComing(h, "here")
	c.offer(t.Context(), noon, moveOf(stepOffer, "a", "m", 1, 2))
	first, second := c.give(noon, moveOf(stepGive, "a", "m", 1, 2)), c.give(noon, moveOf(stepGive, "a", "m", 2, 1))
	ended, end := context.WithCancel(t.Context())
	if end(); first(ended) != nil {
		t.Error("an answer before the proxy has them")
	}
	close(h.busy)
	if got := first(t.Context()); !slices.Equal(got, []bool{true, false}) {
		t.Error(got)
	}
	if got := second(t.Context()); len(got) != 2 || !got[1] || len(h.taken) != 1 {
		t.Error(got, h.taken)
	}
}

// TestMostAnswers reaches the bound of answers that wait for the proxy.
func TestMostAnswers(t *testing.T) {
	c, end := newComing(nil, "here"), make(chan struct{})
	for range mostAnswers {
		if !c.later(func() { <-end }) {
			t.Fatal("no room for an answer")
		}
	}
	if c.later(func() {}) {
		t.Errorf("more than %d answers wait", mostAnswers)
	}
	close(end)
	await.Until(t, "answered", func() bool { return c.later(func() {}) })
}

// TestAnswersOfNewOwners accepts answers of a node that has just got a session, before the node has told its players.
func TestAnswersOfNewOwners(t *testing.T) {
	p := &players{where: newWhereabouts()}
	if p.Has("a", 1) {
		t.Error("any node can answer")
	}
	if p.going.set(1, "a"); !p.Has("a", 1) || p.Has("b", 1) {
		t.Error("the new owner cannot answer, or another node can")
	}
}

// TestHostileMoves refuses what no node sends.
func TestHostileMoves(t *testing.T) {
	const session = `{"client":1,"record":"AA=="}`
	for name, text := range map[string]string{
		"nothing":    ``,
		"no step":    `{"step":"take","node":"a","move":"m","sessions":[` + session + `]}`,
		"no node":    `{"step":"give","node":"","move":"m","sessions":[` + session + `]}`,
		"no move":    `{"step":"give","node":"a","move":"","sessions":[` + session + `]}`,
		"no session": `{"step":"give","node":"a","move":"m","sessions":[]}`,
		"one twice":  `{"step":"give","node":"a","move":"m","sessions":[` + session + `,` + session + `]}`,
		"no record":  `{"step":"offer","node":"a","move":"m","sessions":[{"client":1}]}`,
		"too large":  `{"step":"give","node":"a","move":"m","sessions":[` + session + `]}` + string(make([]byte, maxMove)),
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

// TestComingAt gives sessions whose clients' datagrams arrive at the sender, at a third node, and here.
func TestComingAt(t *testing.T) {
	h := &hall{room: 9, busy: make(chan struct{})}
	close(h.busy)
	c := newComing(h, "here")
	m := moveOf(stepOffer, "a", "m1", 1, 2, 3)
	c.offer(t.Context(), noon, m)
	m.Sessions[1].At, m.Sessions[2].At = "third", "here"
	c.give(noon, m)(t.Context())
	if want := []string{"a", "third", ""}; !slices.Equal(h.at, want) {
		t.Errorf("the datagrams arrive at %q, want %q", h.at, want)
	}
}
