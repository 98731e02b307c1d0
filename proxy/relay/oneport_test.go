package relay

import (
	"maps"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/proxy/bridge"
)

// TestOnePort lets a player of every protocol join one listener at once, and the server answers each of them. RakNet
// and RUDP come first, because an operator lists protocols with the surest evidence first.
func TestOnePort(t *testing.T) {
	var sure, byShape []codec.Protocol
	but := maps.Clone(oneDialect)
	but["bedrock"] = "is raknet to a new client"
	for _, m := range udpMembers(but) {
		if protocols.Find(m.Spec().Name).Evidence < registry.ByShape {
			sure = append(sure, m.Protocol)
		} else {
			byShape = append(byShape, m.Protocol)
		}
	}
	for range byShape {
		byShape = append(byShape[1:], byShape[0])
		onePort(t, slices.Concat(sure, byShape))
	}
}

func onePort(t *testing.T, all []codec.Protocol) {
	far := raknet6()
	route := defaultRoute(far)
	route.Bridge.Reliable, route.Bridge.AllowLossy, route.Bridge.Envelope = policy.ReliableResend, true,
		policy.EnvelopeFramed
	w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, far, route, func(s *Settings) {
		s.Listeners[0].Protocols = all
	})
	players := make([]*player, len(all))
	for i, near := range all {
		w.clients = near
		players[i] = w.join(codec.Hello{})
		w.say(&players[i].peer, near, far, route, i)
	}
	w.Run(time.Second)
	w.greetTheSilent(bridge.WrappingOf(far.Spec(), riptide22().Spec(), &route.Bridge))
	for i, near := range all {
		w.await(near.Spec().Name+" answered", 5*time.Second, func() bool {
			return heard(t, &players[i].peer, near, far, route)[string(body(i))] == 1
		})
	}
	var spoken []string
	for _, s := range w.proxy.relay.Snapshot(w.Now()).Sessions {
		spoken = append(spoken, s.ClientProtocol)
	}
	var want []string
	for _, p := range all {
		want = append(want, p.Spec().Name)
	}
	slices.Sort(spoken)
	if slices.Sort(want); !slices.Equal(spoken, want) {
		t.Errorf("sessions of %v, want %v", spoken, want)
	}
}

// greetTheSilent makes the server create an entity for each silent player. R-Type's player waits for that.
func (w *world) greetTheSilent(wrapping bridge.Wrapping) {
	w.t.Helper()
	for _, p := range w.servers[0].peers {
		if len(p.received()) == 0 {
			created := codec.Message{Payload: []byte{0, 0, 0, 0, 1}, Mode: codec.Unreliable}
			w.send(p, wrapping.Wrap(nil, created))
		}
	}
}
