package relay

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/ratelimit"
	"tidegate/session"
)

// library returns a protocol as its players' library uses it. Riptide's library asks five times, and repeats Connect
// over TCP too.
func library(m member) codec.Protocol {
	if d := protocols.Find(m.Spec().Name); d.Stream != nil {
		return d.Default()
	}
	return m.Protocol
}

// TestCrowdsGetIn lets more players join at the same instant than there are half-open places. All get in, because
// they repeat themselves. None is told that the server is full: half-open places are soon free again, and a refusal
// is final.
func TestCrowdsGetIn(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		for _, client := range members(oneDialect) {
			if mode == policy.ModeRelay && client.transport.Stream {
				continue // only terminated sessions have streams
			}
			for _, c := range crowds {
				t.Run(fmt.Sprintf("%v, %s, mode %d", client, c.name, mode), func(t *testing.T) {
					crowdGetsIn(t, mode, client, c)
				})
			}
		}
	}
}

// crowdCase is a number of players and the limits that they meet.
type crowdCase struct {
	name    string
	players int
	limits  session.Limits
	bounds  []ratelimit.Limit
	addr    func(i int) netip.AddrPort
}

func ofOneAddress(i int) netip.AddrPort {
	return netip.AddrPortFrom(playerAddr(1).Addr(), uint16(5000+i))
}

// A Riptide client asks five times. So five times as many players as places may get in.
var crowds = []crowdCase{
	{"of one address", 40, session.Limits{HalfOpen: 1000, HalfOpenAddress: 10}, nil, ofOneAddress},
	{"of one network", 40, session.Limits{HalfOpen: 1000, HalfOpenNetwork: 10}, nil, playerAddr},
	{"of all networks", 40, session.Limits{HalfOpen: 10}, nil, strangerAddr},
	{"of one address, 32 places", 80, session.Limits{HalfOpen: 1000, HalfOpenAddress: 32}, []ratelimit.Limit{
		limit(ratelimit.Handshakes, ratelimit.PerAddress, 10, 40, ratelimit.Drop),
	}, ofOneAddress},
}

func crowdGetsIn(t *testing.T, mode policy.Mode, client member, c crowdCase) {
	route := matrixRoute(client.Protocol, client.Protocol)
	route.Upstream.Transport, route.Mode = client.transport, mode
	w := newWorldWith(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, client.Protocol, route, func(s *Settings) {
		s.Listeners[0].Transport = client.transport
		s.Limits, s.Bounds = c.limits, c.bounds
		s.Limits.Sessions = 1000
	})
	w.servers[0].react = greets(welcome())
	w.clients = library(client)
	if isRUDP(client) {
		c.players = min(c.players, 60) // it asks for 3 s only
	}
	players := make([]*player, c.players)
	for i := range players {
		players[i] = w.joinFrom(c.addr(i), codec.Hello{Identity: uint64(i + 1)})
		players[i].react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind == codec.Connected && client.Spec().Closed { // half-open until it speaks again
				_ = p.conn.Send(now, codec.Message{Payload: append(bytes.Clone(instruction), body(i)...)})
			}
		}
	}
	w.Run(10 * time.Second)
	in, told := 0, make(map[codec.Reason]int)
	for _, p := range players {
		if p.gone() {
			told[p.find(codec.Disconnected).Reason]++
		} else if p.find(codec.Connected) != nil {
			in++
		}
	}
	if in != len(players) {
		t.Errorf("%d of %d players are in; others were told %v", in, len(players), told)
	}
}
