package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/internal/stray"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// tell gives a node's message to whereabouts.
func (w *whereabouts) tell(t *testing.T, now time.Time, node string, m playerSet) (wanted, isNew bool) {
	t.Helper()
	wanted, isNew, err := w.take(now, node, &m)
	if err != nil {
		t.Fatalf("%s: %v", node, err)
	}
	return wanted, isNew
}

func (w *whereabouts) want(t *testing.T, key stray.Key, node string) {
	t.Helper()
	if got, _ := w.find(key); got != node {
		t.Errorf("player %d is at %q, want %q", key, got, node)
	}
}

func keys(all ...stray.Key) []stray.Key { return all }

// TestWhereabouts follows players of two nodes: they come, go, and change the node. A silent node's players are not
// found, and then forgotten.
func TestWhereabouts(t *testing.T) {
	w := newWhereabouts()
	first := playerSet{instance: "x", number: 1, begins: true, ends: true, opened: keys(1, 2)}
	if wanted, isNew := w.tell(t, noon, "a", first); wanted || !isNew {
		t.Error("a new node's whole set")
	}
	w.tell(t, noon, "b", playerSet{instance: "y", number: 1, begins: true, ends: true, opened: keys(3)})
	w.want(t, 1, "a")
	w.want(t, 3, "b")
	w.want(t, 4, "")
	w.tell(t, noon, "b", playerSet{instance: "y", number: 2, opened: keys(2, 5), closed: keys(3, 1)})
	w.want(t, 1, "a") // it was not b's
	w.want(t, 2, "b")
	w.want(t, 3, "")
	w.tell(t, noon, "a", playerSet{instance: "x", number: 2, closed: keys(2)}) // it has become b's
	w.want(t, 2, "b")
	if !w.has("b", 2) || w.has("a", 2) || !w.knows("a") || w.knows("c") {
		t.Error("has, knows")
	}
	late := noon.Add(silentAfter)
	w.tell(t, late, "b", playerSet{instance: "y", number: 3})
	w.expire(late)
	w.want(t, 1, "")
	w.want(t, 2, "b")
	w.tell(t, late, "a", playerSet{instance: "x", number: 3})
	w.want(t, 1, "a")
	w.expire(late.Add(forgetAfter))
	if nodes, players := w.len(); nodes+players+len(w.slots) != 0 {
		t.Errorf("%d nodes, %d players, %d slots are left", nodes, players, len(w.slots))
	}
}

// TestWholeSets replaces the players of a node in several messages. Meanwhile the old set holds. A gap asks for a set.
func TestWholeSets(t *testing.T) {
	w := newWhereabouts()
	w.tell(t, noon, "a", playerSet{instance: "x", number: 1, begins: true, ends: true, opened: keys(1, 2, 3)})
	if wanted, isNew := w.tell(t, noon, "a", playerSet{instance: "x", number: 3, opened: keys(4)}); !wanted || isNew {
		t.Error("a gap is not noticed")
	}
	w.tell(t, noon, "a", playerSet{instance: "x", number: 4, begins: true, opened: keys(2)})
	w.want(t, 1, "a")
	w.tell(t, noon, "a", playerSet{instance: "x", number: 5, ends: true, opened: keys(5)})
	for key, node := range map[stray.Key]string{1: "", 2: "a", 3: "", 4: "", 5: "a"} {
		w.want(t, key, node)
	}
	if _, _, err := w.take(noon, "a", &playerSet{instance: "x", number: 5, opened: keys(9)}); !errors.Is(err, errOldNews) {
		t.Errorf("an old message: %v", err)
	}
	if _, isNew := w.tell(t, noon, "a", playerSet{instance: "z", number: 1, begins: true, ends: true}); !isNew {
		t.Error("a restart is not noticed")
	}
	if _, players := w.len(); players != 0 || len(w.slots) != 1 {
		t.Errorf("%d players, %d slots after a restart", players, len(w.slots))
	}
}

// TestRestartKeepsPlayers starts a node anew, in the middle of a whole set and outside of one. Its players stay until
// the new process has told its whole set.
func TestRestartKeepsPlayers(t *testing.T) {
	w := newWhereabouts()
	w.tell(t, noon, "a", playerSet{instance: "x", number: 1, begins: true, ends: true, opened: keys(1, 2)})
	wanted, isNew := w.tell(t, noon, "a", playerSet{instance: "y", number: 1, opened: keys(3)})
	if !wanted || !isNew {
		t.Errorf("a restart whose whole set is lost: wanted %v, new %v", wanted, isNew)
	}
	w.tell(t, noon, "a", playerSet{instance: "y", number: 2, begins: true, opened: keys(2)})
	w.want(t, 1, "a")
	w.tell(t, noon, "a", playerSet{instance: "z", number: 1, begins: true, opened: keys(4)})
	w.want(t, 2, "a")
	w.tell(t, noon, "a", playerSet{instance: "z", number: 2, ends: true, opened: keys(5)})
	for key, node := range map[stray.Key]string{1: "", 2: "", 3: "", 4: "a", 5: "a"} {
		w.want(t, key, node)
	}
	if nodes, players := w.len(); nodes != 1 || players != 2 || len(w.slots) != 1 {
		t.Errorf("%d nodes, %d players, %d slots", nodes, players, len(w.slots))
	}
}

// TestInheritPlayers gives a successor the players of other nodes. It also knows a node without players and a silent
// one, since both may pass datagrams on. All holds until each node tells its own players.
func TestInheritPlayers(t *testing.T) {
	old := newWhereabouts()
	old.tell(t, noon, "silent", playerSet{instance: "x", number: 1, begins: true, ends: true, opened: keys(9)})
	late := noon.Add(silentAfter)
	old.tell(t, late, "a", playerSet{instance: "x", number: 7, begins: true, ends: true, opened: keys(1, 2)})
	old.tell(t, late, "b", playerSet{instance: "x", number: 7, begins: true, ends: true})
	old.expire(late)
	text, err := json.Marshal(old.export())
	if err != nil {
		t.Fatal(err)
	}
	var all []NodePlayers
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	w := newWhereabouts()
	w.inherit(late, append(all, NodePlayers{Node: "a"}, NodePlayers{Node: "", Keys: make([]byte, 8)}))
	w.want(t, 1, "a")
	w.want(t, 9, "")
	if nodes, players := w.len(); nodes != 3 || players != 2 || !w.knows("b") || !w.knows("silent") {
		t.Errorf("%d nodes, %d players", nodes, players)
	}
	if awake := w.awake(); len(awake) != 2 || slices.Contains(awake, "silent") {
		t.Errorf("awake: %v", awake)
	}
	if wanted, isNew := w.tell(t, late, "a", playerSet{instance: "x", number: 8, closed: keys(1)}); !wanted || !isNew {
		t.Errorf("wanted %v, new %v: the node's set is not asked for", wanted, isNew)
	}
	w.tell(t, late, "a", playerSet{instance: "x", number: 9, begins: true, ends: true, opened: keys(2)})
	w.want(t, 1, "")
	w.want(t, 2, "a")
	w.expire(late.Add(silentAfter))
	w.want(t, 2, "")
}

// TestWhereaboutsAreBounded reaches the bounds of nodes and of players.
func TestWhereaboutsAreBounded(t *testing.T) {
	defer func(n int) { maxPlayers = n }(maxPlayers)
	maxPlayers = 1000
	w := newWhereabouts()
	all := make([]stray.Key, maxPlayers+1)
	for i := range all {
		all[i] = stray.Key(i + 1)
	}
	crowd := &playerSet{instance: "x", number: 1, begins: true, ends: true, opened: all}
	if _, _, err := w.take(noon, "a", crowd); !errors.Is(err, errRoom) {
		t.Errorf("too many players: %v", err)
	}
	if _, players := w.len(); players != maxPlayers {
		t.Errorf("%d players", players)
	}
	for i := range maxNodes - 1 {
		w.tell(t, noon, fmt.Sprintf("n%d", i), playerSet{instance: "x", number: 1, begins: true, ends: true})
	}
	if _, _, err := w.take(noon, "more", &playerSet{instance: "x", number: 1}); !errors.Is(err, errRoom) {
		t.Errorf("too many nodes: %v", err)
	}
	if _, _, err := w.take(noon, "", &playerSet{instance: "x", number: 1}); !errors.Is(err, errNode) {
		t.Errorf("no name: %v", err)
	}
}

// TestBudgets reaches the budget of a player, of all, and of their number. They are whole again after a second.
func TestBudgets(t *testing.T) {
	b := new(budget)
	count := func(now time.Time, key stray.Key, n int) (taken int) {
		for range n {
			if b.takes(now, key) {
				taken++
			}
		}
		return taken
	}
	if n := count(noon, 1, 2*mostOfPlayer); n != mostOfPlayer {
		t.Errorf("%d datagrams of a player", n)
	}
	if n := count(noon.Add(budgetsPeriod), 1, 1); n != 1 {
		t.Error("the budget stays empty")
	}
	total := 1
	for key := range stray.Key(maxPassing) {
		total += count(noon.Add(budgetsPeriod), key+2, 1)
	}
	if total != maxPassing {
		t.Errorf("%d players", total)
	}
	b.spent = mostPassed
	if count(noon.Add(budgetsPeriod), 1, 1) != 0 {
		t.Error("no budget of all")
	}
}

// TestFullOutbox drops datagrams when too many wait for a node.
func TestFullOutbox(t *testing.T) {
	o, d := newOutboxes("here"), &stray.Datagram{Bytes: make([]byte, stray.MaxDatagram)}
	n := 0
	for o.put("there", d, true) {
		n++
	}
	if _, late, _ := o.counts(); late != 1 || n < 20 || len(o.boxes["there"]) > stray.MaxBatch {
		t.Errorf("%d fit, %d are late", n, late)
	}
}

// TestPlayersWaitWithoutNATS loses the datagrams of another node's player while NATS is away. They are no stranger's.
func TestPlayersWaitWithoutNATS(t *testing.T) {
	p := newPlayers(&Options{Name: "x", Node: "here"})
	p.where.tell(t, noon, "a", playerSet{instance: "x", number: 1, begins: true, ends: true, opened: keys(1)})
	if p.PassOn(2, &stray.Datagram{}) {
		t.Error("a stranger's datagram is held")
	}
	if _, late, _ := p.out.counts(); !p.PassOn(1, &stray.Datagram{}) || late != 0 {
		t.Errorf("a player's datagram is a stranger's, or %d are late", late)
	}
	if passed, late, _ := p.out.counts(); passed != 0 || late != 1 {
		t.Errorf("%d passed on, %d late", passed, late)
	}
}
