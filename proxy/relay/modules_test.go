package relay

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/saved"
	"tidegate/proxy/stats"
)

// scripted is a module in Go, the same for all loops.
type scripted struct {
	handle func(c *bridge.Call) (bool, error)
	ended  []uint64
}

func (s *scripted) Loop(int) bridge.Module              { return s }
func (s *scripted) Handle(c *bridge.Call) (bool, error) { return s.handle(c) }
func (s *scripted) Ended(_ time.Time, session uint64)   { s.ended = append(s.ended, session) }
func moduled(name string, of *scripted, passes bool) RouteModule {
	return RouteModule{name, of, passes}
}

// moduledWorld lets a Riptide game play on a RakNet server that reads its own packets.
func moduledWorld(t testing.TB, all ...RouteModule) (w *world, p *player, server *peer) {
	route := defaultRoute(raknet6())
	route.Bridge.Envelope = policy.EnvelopeRaw
	route.Modules = all
	w = newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
	p = w.connect(codec.Hello{})
	server = w.servers[0].peers[0]
	server.react = nil
	return w, p, server
}

func (w *world) speak(p *peer, text string) {
	m := codec.Message{Mode: codec.Reliable, Payload: []byte(text)}
	if p != w.servers[0].peers[0] {
		m.ID, m.HasID = 7, true
	}
	w.send(p, m)
	w.Run(time.Second)
}

// texts returns what an end has received.
func (p *peer) texts() (all []string) {
	for _, m := range p.received() {
		all = append(all, string(m.Payload))
	}
	return all
}

// TestModuleDecides drops, changes, answers and adds messages, in both directions.
func TestModuleDecides(t *testing.T) {
	of := &scripted{}
	w, p, server := moduledWorld(t, moduled("chat", of, false))
	of.handle = func(c *bridge.Call) (bool, error) {
		m := *c.Message
		put := func(from policy.Direction, id int, text string) {
			m.ID, m.HasID, m.Payload, m.Mode = uint16(max(id, 0)), id >= 0, []byte(text), codec.ReliableOrdered
			c.Sent = append(c.Sent, bridge.Sent{From: from, Message: m})
		}
		switch string(c.Message.Payload) {
		case "bad":
			return false, nil
		case "change":
			put(c.From, -1, "\x90changed")
			return false, nil
		case "ping":
			put(policy.FromUpstream, 8, "pong")
			return false, nil
		case "\x91more":
			put(policy.FromUpstream, 9, "one")
			put(policy.FromUpstream, 10, "two")
			return false, nil
		}
		return true, nil
	}
	for _, text := range []string{"\x90hi", "bad", "change", "ping"} {
		w.speak(&p.peer, text)
	}
	w.speak(server, "\x91more")
	w.speak(server, "\x92rest")
	if got, want := server.texts(), []string{"\x90hi", "\x90changed"}; !slices.Equal(got, want) {
		t.Errorf("the server has %q, want %q", got, want)
	}
	if got, want := p.texts(), []string{"pong", "one", "two", "\x92rest"}; !slices.Equal(got, want) {
		t.Errorf("the player has %q, want %q", got, want)
	}
	for i, want := range []uint16{8, 9, 10} {
		if m := p.received()[i]; m.ID != want {
			t.Errorf("message %d has the ID %d, want %d", i, m.ID, want)
		}
	}
	if n := w.drops(stats.DropModule); n != 1 {
		t.Errorf("%d messages are counted as dropped by the module, want 1", n)
	}
}

// TestModuleEndsSession sends messages of which the first one ends the session. The others harm nothing.
func TestModuleEndsSession(t *testing.T) {
	of := &scripted{}
	w, p, _ := moduledWorld(t, moduled("chat", of, false))
	of.handle = func(c *bridge.Call) (bool, error) {
		m := codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, 60_000)}
		for range 3 { // none fits into a datagram of Riptide
			c.Sent = append(c.Sent, bridge.Sent{From: policy.FromUpstream, Message: m})
		}
		return false, nil
	}
	w.speak(&p.peer, "\x90hi")
	w.Run(10 * time.Second)
	if w.proxy.relay.Len() != 0 || len(of.ended) != 1 || w.drops(stats.DropClosing) != 1 {
		t.Errorf("%d sessions, %d ends, %d drops", w.proxy.relay.Len(), len(of.ended), w.drops(stats.DropClosing))
	}
}

// TestModuleFails has a module that cannot handle messages. The operator's rule decides.
func TestModuleFails(t *testing.T) {
	for _, passes := range []bool{false, true} {
		of := &scripted{handle: func(*bridge.Call) (bool, error) { return false, errors.New("out of order") }}
		w, p, server := moduledWorld(t, moduled("chat", of, passes))
		w.speak(&p.peer, "\x90hi")
		if got := len(server.texts()) == 1; got != passes {
			t.Errorf("on_failure passes: %v, and the message has arrived: %v", passes, got)
		}
		if dropped := w.drops(stats.DropModuleFailed) == 1; dropped == passes || w.proxy.relay.counters.ModuleFailures != 1 {
			t.Errorf("passes: %v, dropped: %v, %d failures", passes, dropped, w.proxy.relay.counters.ModuleFailures)
		}
	}
}

// TestModulesInOrder has two modules. The second one sees what the first one has sent, and not the reverse.
func TestModulesInOrder(t *testing.T) {
	var seen [2][]string
	adds := func(which int) *scripted {
		return &scripted{handle: func(c *bridge.Call) (bool, error) {
			seen[which] = append(seen[which], string(c.Message.Payload))
			m := *c.Message
			m.Payload = append(slices.Clone(m.Payload), byte('1'+which))
			c.Sent = append(c.Sent, bridge.Sent{From: c.From, Message: m})
			return false, nil
		}}
	}
	w, p, server := moduledWorld(t, moduled("one", adds(0), false), moduled("two", adds(1), false))
	w.speak(&p.peer, "\x90hi")
	if got := server.texts(); !slices.Equal(got, []string{"\x90hi12"}) || !slices.Equal(seen[0], []string{"\x90hi"}) ||
		!slices.Equal(seen[1], []string{"\x90hi1"}) {
		t.Errorf("the server has %q, the modules have seen %q", got, seen)
	}
}

// counts counts the messages of a session in what it keeps with the session, and as a check in a map.
func counts(t testing.TB) (of *scripted, all map[uint64]uint64) {
	all = make(map[uint64]uint64)
	of = &scripted{handle: func(c *bridge.Call) (bool, error) {
		var n uint64
		if len(*c.State) > 0 {
			n = binary.LittleEndian.Uint64(*c.State)
		}
		if n != all[c.Session] {
			t.Errorf("session %d has kept %d, want %d", c.Session, n, all[c.Session])
		}
		all[c.Session] = n + 1
		*c.State = binary.LittleEndian.AppendUint64((*c.State)[:0], n+1)
		return true, nil
	}}
	return of, all
}

// sendsAgain sends each message again in place of the one that it gets, and counts it as counts does. A process that
// goes on with an older state has kept less, and one that starts anew has kept nothing.
func sendsAgain(t testing.TB) *scripted {
	of, all := counts(t)
	count := of.handle
	of.handle = func(c *bridge.Call) (bool, error) {
		kept := uint64(0)
		if len(*c.State) > 0 {
			kept = binary.LittleEndian.Uint64(*c.State)
		}
		if known, ok := all[c.Session]; !ok || kept < known {
			all[c.Session] = kept
		}
		c.Sent = append(c.Sent, bridge.Sent{From: c.From, Message: *c.Message})
		_, err := count(c)
		return false, err
	}
	return of
}

// TestReloadSwapsModules replaces the modules of a session that goes on.
func TestReloadSwapsModules(t *testing.T) {
	of, all := counts(t)
	w, p, server := moduledWorld(t, moduled("chat", of, false))
	w.speak(&p.peer, "\x90one")
	swap := func(by ...RouteModule) {
		w.reload(func(s *Settings) {
			next := *s.Listeners[0].Route
			next.Modules = by
			s.Listeners[0].Route = &next
		})
	}
	drops := &scripted{handle: func(*bridge.Call) (bool, error) { return false, nil }}
	swap(moduled("other", drops, false))
	w.speak(&p.peer, "\x90two")
	swap()
	w.speak(&p.peer, "\x90three")
	swap(moduled("chat", of, false))
	w.speak(&p.peer, "\x90four")
	if got, want := server.texts(), []string{"\x90one", "\x90three", "\x90four"}; !slices.Equal(got, want) {
		t.Errorf("the server has %q, want %q", got, want)
	}
	if len(all) != 1 {
		t.Errorf("modules have seen %d sessions", len(all))
	}
}

// TestModulesStateMoves replaces the Relay, as an upgrade does. What the module keeps moves with its session.
func TestModulesStateMoves(t *testing.T) {
	of, all := counts(t)
	w, p, server := moduledWorld(t, moduled("chat", of, false))
	other := w.connect(codec.Hello{})
	for range 3 {
		w.speak(&p.peer, "\x90hi")
		w.speak(server, "\x91hi")
		w.replaceRelay()
	}
	w.speak(&other.peer, "\x90hi")
	if len(all) != 2 || of.ended != nil {
		t.Errorf("counts are %v, %d sessions have ended", all, len(of.ended))
	}
	p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.Run(10 * time.Second)
	if len(of.ended) != 1 || all[of.ended[0]] != 6 {
		t.Errorf("%v have ended, want the session with 6 messages of %v", of.ended, all)
	}
}

// TestKeptIsBounded reloads with so many modules that the first ones' bytes make room.
func TestKeptIsBounded(t *testing.T) {
	var k keptBytes
	for i := range 3 * maxKept {
		name := string(rune('a' + i))
		if k.of(name) != nil {
			t.Fatalf("%s has bytes before it has kept any", name)
		}
		k.add(saved.Kept{Module: name, Bytes: make([]byte, 10)})
	}
	if last := len(k); k.of("another") != nil || len(k) != last {
		t.Error("a module that keeps nothing pushes another one's bytes out")
	}
	if len(k) > maxKept || k.size() != 10*len(k) || k.check() != nil {
		t.Errorf("%d modules, %d bytes, %v", len(k), k.size(), k.check())
	}
	k[0].Bytes = make([]byte, bridge.MaxState+1)
	if k.check() == nil {
		t.Error("a record with too many bytes is taken")
	}
}

// TestModulesAllocateNothing carries a message there and back by a module that changes it and keeps bytes.
func TestModulesAllocateNothing(t *testing.T) {
	var sent [1]bridge.Sent
	of := &scripted{handle: func(c *bridge.Call) (bool, error) {
		*c.State = append((*c.State)[:0], "kept"...)
		sent[0] = bridge.Sent{From: c.From, Message: *c.Message}
		c.Sent = sent[:]
		return false, nil
	}}
	route := defaultRoute(raknet6())
	route.Modules = []RouteModule{moduled("chat", of, false)}
	p := newPipeOn(t, riptide22(), route)
	m := codec.Message{Mode: codec.Reliable, ID: 7, HasID: true, Payload: make([]byte, 200)}
	for range 100 {
		p.round(m)
	}
	if n := allocs.PerRun(200, func() { p.round(m) }); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
}
