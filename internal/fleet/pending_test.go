package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"tidegate/internal/testkit/await"
)

// TestPending ends bans and drains while NATS is away, and replaces the node by a successor. The successor ends another
// drain. When NATS is back, all of that holds at the other node too.
func TestPending(t *testing.T) {
	port, folder := freePort(t), t.TempDir()
	s := natsServer(t, port, folder)
	url := []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}
	left, right := new(games), new(games)
	a := join(t, Options{Node: "a", Servers: url, Games: left})
	b := join(t, Options{Node: "b", Servers: url, Games: right})
	a.awaitCurrent(t)
	b.awaitCurrent(t)
	for i := range 3 {
		b.Bans.Add(lasting(address(i)))
		a.awaitBan(t, address(i), true)
		right.operator(gameAt(i), true)
	}
	left.awaitDrains(t, a, gameAt(0), gameAt(1), gameAt(2))
	halt(s)
	await.Until(t, "away", func() bool { return !a.Status().Connected && !b.Status().Connected })
	a.Bans.Remove(lasting(address(0)).Prefix)
	left.operator(gameAt(0), false)
	await.Until(t, "noticed", func() bool { return a.Status().Waiting == 2 })

	pending, err := a.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(pending)
	if err != nil {
		t.Fatal(err)
	}
	a.leave()
	if _, err := a.Pending(t.Context()); err != errEnded {
		t.Errorf("after the end: %v", err)
	}
	next := Options{Node: "a", Servers: url, Games: left, Bans: a.Bans}
	if err := json.Unmarshal(text, &next.Pending); err != nil {
		t.Fatal(err)
	}
	next.Pending.Bans = append(next.Pending.Bans, Change{Key: "x"}) // a release may have other records
	next.Pending.Drains = append(next.Pending.Drains, Change{Key: "x"})
	a = join(t, next)
	left.operator(gameAt(1), false)
	s = natsServer(t, port, folder)
	for m, g := range map[*member]*games{a: left, b: right} {
		g.awaitDrains(t, m, gameAt(2))
		m.awaitBan(t, address(0), false)
		m.awaitBan(t, address(1), true)
		m.awaitCurrent(t)
		await.Until(t, "sent", func() bool { return m.Status().Waiting == 0 })
	}
	a.leave()
	b.leave()
	halt(s)
}
