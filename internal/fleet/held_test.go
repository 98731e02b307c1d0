package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/stray"
	"tidegate/internal/testkit/await"
	"tidegate/ratelimit"
)

// room is a proxy whose players are always the same. It keeps the texts of the datagrams that come from other nodes.
type room struct {
	Players
	keys []stray.Key

	mu      sync.Mutex
	carrier stray.Carrier
	taken   map[string]bool
	sent    map[string]bool
}

func newRoom(keys ...stray.Key) *room {
	return &room{keys: keys, taken: make(map[string]bool), sent: make(map[string]bool)}
}

func (r *room) JoinFleet(_ context.Context, carrier stray.Carrier, secret stray.Secret) error {
	r.HoldForFleet(carrier, secret)
	return nil
}

func (r *room) HoldForFleet(carrier stray.Carrier, _ stray.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carrier = carrier
}

func (r *room) PlayerChanges(whole bool) (opened, closed []stray.Key, isWhole bool) {
	if whole {
		opened = r.keys
	}
	return opened, nil, whole
}

func (r *room) TakeStrays(_ string, all []stray.Datagram) { r.note(r.taken, all) }

func (r *room) SendAnswers(_ string, all []stray.Datagram) { r.note(r.sent, all) }

func (r *room) note(in map[string]bool, all []stray.Datagram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		in[string(all[i].Bytes)] = true
	}
}

func (r *room) has(in map[string]bool, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return in[text]
}

func (r *room) way() stray.Carrier {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carrier
}

// crosses waits until a datagram of a player of two that arrives at one reaches two, and the answer comes back. NATS
// may need a moment for both.
func crosses(t *testing.T, when string, one, two *room) {
	t.Helper()
	n := 0
	await.Nil(t, func() error {
		n++
		text := fmt.Sprintf("%s %d", when, n)
		d := &stray.Datagram{Client: netip.AddrPortFrom(address(1), 5000), Bytes: []byte(text)}
		if w := one.way(); w == nil || !w.PassOn(two.keys[0], d) {
			return errors.New(when + ": the player is a stranger")
		}
		two.way().Answer("one", d)
		if !await.Within(200*time.Millisecond, func() bool { return two.has(two.taken, text) && one.has(one.sent, text) }) {
			return errors.New(when + ": a datagram or an answer is lost")
		}
		return nil
	})
}

// TestHeldPlayers replaces a node. Its successor passes datagrams on, and takes answers, before its predecessor has
// left the fleet, while no process is the node, and when it has joined.
func TestHeldPlayers(t *testing.T) {
	port := freePort(t)
	natsServer(t, port, t.TempDir())
	url := []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}
	embedded := cluster(t, 2)
	for name, options := range map[string][]Options{
		"NATS": {{Servers: url}, {Servers: url}}, "embedded": embedded,
	} {
		t.Run(name, func(t *testing.T) {
			options[0].Node, options[1].Node = "one", "two"
			old, successor, other := newRoom(), newRoom(), newRoom(1)
			options[0].Players, options[1].Players = old, other
			predecessor := join(t, options[0])
			join(t, options[1])
			await.Until(t, "known", func() bool { return predecessor.Status().Players.Known == 1 })
			crosses(t, "before", old, other)

			pending, err := predecessor.Pending(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o := options[0]
			o.Name, o.Log, o.Bans = "test", zerolog.Nop(), ratelimit.NewBans(terms)
			o.Players, o.Pending = successor, pending
			o.Held = HoldPlayers(&o)
			t.Cleanup(o.Held.End)
			o.Held.Begin()
			<-o.Held.opened
			crosses(t, "beside its predecessor", successor, other)
			if successor.way().PassOn(2, new(stray.Datagram)) {
				t.Error("a stranger is another node's player")
			}
			predecessor.leave()
			crosses(t, "without a node", successor, other)
			join(t, o)
			crosses(t, "in the fleet", successor, other)
			await.Until(t, "alone", func() bool {
				crosses(t, "until it is alone", successor, other) // a datagram that comes by its own connection ends Held
				return o.Held.connection.IsClosed()
			})
			o.Held.End()
			crosses(t, "alone", successor, other)
		})
	}
}

// TestHeldPlayersWithoutNATS holds the datagrams of other nodes' players while a node joins, and those of no stranger.
func TestHeldPlayersWithoutNATS(t *testing.T) {
	r, where := newRoom(), newWhereabouts()
	where.tell(t, noon, "a", playerSet{instance: "x", number: 1, begins: true, ends: true, opened: keys(1)})
	h := HoldPlayers(&Options{
		Name: "test", Node: "one", Servers: []string{"nats://127.0.0.1:1"}, Log: zerolog.Nop(), Players: r,
		Pending: Pending{Players: where.export()},
	})
	h.Begin()
	if !r.way().PassOn(1, new(stray.Datagram)) || r.way().PassOn(2, new(stray.Datagram)) {
		t.Error("a player is a stranger, or a stranger a player")
	}
	h.End()
	for _, c := range []struct {
		after time.Duration
		held  bool
	}{{forgetAfter - time.Second, true}, {forgetAfter + time.Second, false}} {
		if h.expire(h.began.Add(c.after)); r.way().PassOn(1, new(stray.Datagram)) != c.held {
			t.Errorf("after %v without NATS, the player is held: %v", c.after, !c.held)
		}
	}
	if HoldPlayers(&Options{Players: r}) != nil {
		t.Error("players are held where no other node has any")
	}
}
