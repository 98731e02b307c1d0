package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/protocols"
	"tidegate/internal/testkit/simnet"
	"tidegate/session"
)

// library is a protocol as its players' library has it: Riptide's asks five times, and repeats Connect over TCP, too.
func library(m member) codec.Protocol {
	if d := protocols.Find(m.Spec().Name); d.Stream != nil {
		return d.Default()
	}
	return m.Protocol
}

// TestCrowdsGetIn lets more players join at the same instant than there are half-open places. All get in, because they
// repeat themselves. None is told that the server is full: half-open places are soon free again, and a refusal is final.
func TestCrowdsGetIn(t *testing.T) {
	const players = 40 // a Riptide client asks five times
	for _, client := range members(oneDialect) {
		for _, c := range []struct {
			name   string
			limits session.Limits
			addr   func(i int) netip.AddrPort
		}{
			{"of one address", session.Limits{HalfOpen: 1000, HalfOpenAddress: 10}, func(i int) netip.AddrPort {
				return netip.AddrPortFrom(playerAddr(1).Addr(), uint16(5000+i))
			}},
			{"of one network", session.Limits{HalfOpen: 1000, HalfOpenNetwork: 10, NetworkV4: 24}, playerAddr},
			{"of all networks", session.Limits{HalfOpen: 10}, strangerAddr},
		} {
			t.Run(fmt.Sprintf("%v, %s", client, c.name), func(t *testing.T) {
				route := matrixRoute(client.Protocol, client.Protocol)
				route.Upstream.Transport = client.transport
				w := newWorldWith(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, client.Protocol, route, func(s *Settings) {
					s.Listeners[0].Transport = client.transport
					s.Limits = c.limits
					s.Limits.Sessions = 1000
				})
				w.servers[0].react = greets(welcome())
				w.clients = library(client)
				crowd := make([]*player, players)
				for i := range crowd {
					crowd[i] = w.joinFrom(c.addr(i), codec.Hello{Identity: uint64(i + 1)})
					crowd[i].react = func(now time.Time, p *peer, ev *codec.Event) {
						if ev.Kind == codec.Connected && client.Spec().Closed { // half-open until it speaks again
							_ = p.conn.Send(now, codec.Message{Payload: append(bytes.Clone(instruction), body(i)...)})
						}
					}
				}
				w.Run(10 * time.Second)
				in, told := 0, make(map[codec.Reason]int)
				for _, p := range crowd {
					if p.gone() {
						told[p.find(codec.Disconnected).Reason]++
					} else if p.find(codec.Connected) != nil {
						in++
					}
				}
				if in != players {
					t.Errorf("%d of %d players are in; others were told %v", in, players, told)
				}
			})
		}
	}
}
