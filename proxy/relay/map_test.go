package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// twoForms are the rows of a map for players with IDs, and for those without, at servers of a protocol. Each ID has a
// row.
func twoForms(servers *codec.Spec) []bridge.Row {
	beside := policy.Form{High: 1<<16 - 1}
	bytes := policy.Form{Fixed: "\x9a", High: 1<<16 - 1, Width: 2, BigEndian: true}
	other := policy.Form{Fixed: "\x9b\x01", High: 1<<16 - 1, Width: 4}
	if servers.IDs == codec.IDBeside {
		other = beside
	}
	return []bridge.Row{{Client: beside, Server: other, Channel: -1}, {Client: bytes, Server: other, Channel: -1}}
}

// formOn returns the form of the messages of one end on a route with twoForms.
func formOn(r *Route, client, isClient bool) policy.Form {
	for i := range r.Bridge.Map {
		if row := &r.Bridge.Map[i]; row.Client.IsAlone() == client {
			if isClient {
				return row.Client
			}
			return row.Server
		}
	}
	panic("no such row")
}

// begin gives a message of an end the form of the map.
func begin(f policy.Form, m codec.Message) codec.Message {
	if m.HasID = f.IsAlone(); !m.HasID {
		m.Payload = append(f.Append(nil, uint32(m.ID)), m.Payload...)
	}
	return m
}

// unbegin returns the ID and the payload of a message in the form of the map.
func unbegin(f policy.Form, m codec.Message) (id uint16, payload []byte, ok bool) {
	if f.IsAlone() {
		return m.ID, m.Payload, m.HasID
	}
	n, ok := f.Number(m.Payload)
	if !ok {
		return 0, nil, false
	}
	return uint16(n), m.Payload[f.Len():], f.Has(n)
}

// TestUnchangedServer lets a Riptide game play on a RakNet server that reads its own packets. A message without a row
// passes in the envelope, is dropped, or ends the session.
func TestUnchangedServer(t *testing.T) {
	unreliable := codec.Unreliable
	for _, rule := range []policy.Unmapped{policy.UnmappedPasses, policy.UnmappedDrops, policy.UnmappedEnds} {
		route := defaultRoute(raknet6())
		route.Bridge.Unmapped = rule
		number := func(fixed string, n uint32, width int) policy.Form {
			return policy.Form{Fixed: fixed, Low: n, High: n, Width: width}
		}
		ordered := codec.ReliableOrdered
		route.Bridge.Map = []bridge.Row{
			{Client: number("", 7, 0), Server: number("", 0x90, 1), Mode: &ordered, Channel: 5},
			{Client: number("", 8, 0), Server: number("\x91", 1, 2), From: policy.FromUpstream, Mode: &unreliable, Channel: -1},
		}
		w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
		p := w.connect(codec.Hello{})
		server := w.servers[0].peers[0]
		server.react = nil
		w.send(&p.peer, codec.Message{Mode: codec.Reliable, ID: 7, HasID: true, Payload: []byte("in")})
		w.send(server, codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("\x91\x01\x00out")})
		w.Run(time.Second)
		if got := server.received(); len(got) != 1 || string(got[0].Payload) != "\x90in" ||
			got[0].Mode != codec.ReliableOrdered || got[0].Channel != 5 {
			t.Fatalf("the server has %+v", got)
		}
		if got := p.received(); len(got) != 1 || got[0].ID != 8 || string(got[0].Payload) != "out" ||
			got[0].Mode != codec.Unreliable {
			t.Fatalf("the player has %+v", got)
		}
		w.send(&p.peer, codec.Message{Mode: codec.Reliable, ID: 8, HasID: true, Payload: []byte("no row")})
		w.Run(time.Second)
		passed, dropped, gone := len(server.received()) == 2, w.drops(stats.DropUndeclared) == 1, p.gone()
		if passed != (rule == policy.UnmappedPasses) || dropped == passed || gone != (rule == policy.UnmappedEnds) {
			t.Errorf("%v: passed %v, dropped %v, gone %v", rule, passed, dropped, gone)
		}
	}
}

// TestMapChangesWithReload lets a new session cross by the new map, while the old one keeps its own.
func TestMapChangesWithReload(t *testing.T) {
	route := defaultRoute(raknet6())
	route.Bridge.Map = twoForms(route.Upstream.Protocol.Spec())
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
	old := w.connect(codec.Hello{})
	w.reload(func(s *Settings) {
		next := *route
		next.Bridge.Map = []bridge.Row{{Client: policy.Form{Low: 7, High: 7},
			Server: policy.Form{Low: 0x90, High: 0x90, Width: 1}, Channel: -1}}
		s.Listeners[0].Route = &next
	})
	fresh := w.connect(codec.Hello{})
	for i, p := range []*player{old, fresh} {
		w.send(&p.peer, codec.Message{Mode: codec.Reliable, ID: 7, HasID: true, Payload: []byte("hi")})
		w.Run(time.Second)
		got, want := w.servers[0].peers[i].received(), []string{"\x9b\x01\x07\x00\x00\x00hi", "\x90hi"}[i]
		if len(got) != 1 || string(got[0].Payload) != want {
			t.Errorf("session %d: the server has %+v, want %x", i, got, want)
		}
	}
}

// TestMapsAllocateNothing carries a message of a Riptide game to a RakNet server, and its echo back.
func TestMapsAllocateNothing(t *testing.T) {
	for _, clients := range []codec.Protocol{riptide22(), raknet.New(raknet.Options{DialVersion: 6})} {
		servers := raknet6()
		if clients.Spec().IDs != codec.IDBeside {
			servers = riptide22()
		}
		p := newMappedPipe(t, clients, servers)
		m := begin(formOn(p.world.settings.Listeners[0].Route, clients.Spec().IDs == codec.IDBeside, true),
			codec.Message{Mode: codec.Reliable, ID: 700, Payload: make([]byte, 200)})
		for range 100 {
			p.round(m)
		}
		if n := allocs.PerRun(200, func() { p.round(m) }); n != 0 {
			t.Errorf("%s: %v allocations for a message", clients.Spec().Name, n)
		}
		if d := p.world.drops(stats.DropUndeclared); d > 0 {
			t.Errorf("%s: %d messages without a row", clients.Spec().Name, d)
		}
	}
}

func newMappedPipe(t testing.TB, clients, servers codec.Protocol) *pipe {
	t.Helper()
	route := defaultRoute(servers)
	route.Bridge.Map, route.Bridge.Unmapped = twoForms(servers.Spec()), policy.UnmappedDrops
	return newPipeOn(t, clients, route)
}

// TestRawPayloadsAreWholeBytes: the unused bits of a last byte are its high ones in Riptide, its low ones in RakNet. So
// a raw payload becomes one of whole bytes there.
func TestRawPayloadsAreWholeBytes(t *testing.T) {
	stock := raknet.New(raknet.Options{DialVersion: 6, Bits: true})
	for _, pair := range [][2]codec.Protocol{{riptide22(), stock}, {stock, riptide22()}} {
		route := defaultRoute(pair[1])
		route.Bridge.Envelope = policy.EnvelopeRaw
		w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, pair[0], route)
		p := w.connect(codec.Hello{})
		server := w.servers[0].peers[0]
		server.react = nil
		fromRiptide := codec.Message{Mode: codec.Reliable, ID: 7, HasID: true, Payload: []byte("\x90\x05"), Pad: 5}
		fromRakNet := codec.Message{Mode: codec.Reliable, Payload: []byte("\x90\xa0"), Pad: 5}
		for _, side := range []struct{ from, to *peer }{{&p.peer, server}, {server, &p.peer}} {
			said := fromRakNet
			if (side.from == server) == (pair[1] != codec.Protocol(stock)) {
				said = fromRiptide
			}
			w.send(side.from, said)
			w.Run(time.Second)
			if got := side.to.received(); len(got) != 1 || string(got[0].Payload) != string(said.Payload) || got[0].Pad != 0 {
				t.Errorf("%s to %s: %x became %+v", pair[0].Spec().Name, pair[1].Spec().Name, said.Payload, got)
			}
		}
	}
}
