package raknet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// forgetfulServer is a model of @serenityjs/raknet 0.8's sending half, behind the handshake of our own server. It never
// sends a datagram again on its own. Each request sends the messages again under a new number, and both numbers can be
// requested from then on.
type forgetfulServer struct {
	*simNode
	started  bool
	number   Seq24
	reliable Seq24
	order    Seq24
	sent     map[Seq24]capsule
	out      [][]byte
	inbox    [][]byte
	frozen   time.Time // until then
}

// forgetfulPair connects our client with the model, and then sets the weather.
func forgetfulPair(t testing.TB, seed uint64, weather simnet.Weather) (*simnet.Net, *simNode, *forgetfulServer) {
	t.Helper()
	net := simnet.New(t, seed, simnet.Weather{Latency: ms})
	client := &simNode{self: linkClient, peer: linkServer}
	client.conn = New(Options{}).Dial(net.Now(), linkServer, codec.Hello{})
	s := &forgetfulServer{simNode: &simNode{self: linkServer, peer: linkClient, p: New(Options{})}}
	net.Add(s, linkServer)
	net.Add(client, linkClient)
	net.Run(time.Second)
	if !s.connected || !client.connected {
		t.Fatal("not connected within a second")
	}
	net.SetWeather(weather)
	conn := s.conn.(*Conn)
	s.started, s.sent = true, make(map[Seq24]capsule)
	s.number, s.reliable = conn.sender.flight.next, conn.sender.flight.Reliable
	s.order = conn.sender.channel(0).Order
	return net, client, s
}

func (s *forgetfulServer) say(payload []byte) {
	s.push(capsule{mode: codec.ReliableOrdered, reliable: s.reliable, order: s.order, payload: payload})
	s.reliable, s.order = s.reliable.Add(1), s.order.Add(1)
}

// push sends a message under a new number.
func (s *forgetfulServer) push(c capsule) {
	s.sent[s.number] = c
	s.out = append(s.out, c.append(appendDataHeader(nil, s.number, false, false)))
	s.number = s.number.Add(1)
}

// Receive implements simnet.Node.
func (s *forgetfulServer) Receive(now time.Time, from, to netip.AddrPort, b []byte) {
	if !s.started {
		s.simNode.Receive(now, from, to, b)
		return
	}
	if now.Before(s.frozen) {
		s.inbox = append(s.inbox, bytes.Clone(b))
		return
	}
	s.hear(now, b)
}

func (s *forgetfulServer) hear(now time.Time, b []byte) {
	var d datagram
	switch {
	case d.parse(b) != nil:
	case d.kind == ackDatagram:
		new(stockSender).each(d.body, func(n Seq24) { delete(s.sent, n) })
	case d.kind == nackDatagram:
		new(stockSender).each(d.body, func(n Seq24) {
			if c, ok := s.sent[n]; ok {
				s.push(c)
			}
		})
	default:
		ack := beginAcks(nil, ackDatagram, 100)
		ack.add(ackRange{d.number, d.number})
		s.out = append(s.out, ack.end())
		var c capsule
		for b = d.body; !isPadding(b); {
			var err error
			if b, err = c.parse(b); err != nil {
				return
			}
			if c.payload[0] == byte(idConnectedPing) {
				pong := append([]byte{byte(idConnectedPong)}, c.payload[1:9]...)
				s.say(binary.BigEndian.AppendUint64(pong, uint64(now.UnixMilli())))
			}
		}
	}
}

// Advance implements simnet.Node.
func (s *forgetfulServer) Advance(now time.Time) {
	if !s.started {
		s.simNode.Advance(now)
	}
	if now.Before(s.frozen) {
		return
	}
	for _, b := range s.inbox {
		s.hear(now, b)
	}
	s.inbox = s.inbox[:0]
}

// Transmit implements simnet.Node.
func (s *forgetfulServer) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	switch {
	case !s.started:
		return s.simNode.Transmit(now, b)
	case len(s.out) == 0:
		return b, s.self, s.peer, false
	}
	b = append(b, s.out[0]...)
	s.out = s.out[1:]
	return b, s.self, s.peer, true
}

// NextTimeout implements simnet.Node.
func (s *forgetfulServer) NextTimeout() time.Time {
	if !s.started {
		return s.simNode.NextTimeout()
	}
	if len(s.inbox) > 0 {
		return s.frozen
	}
	return time.Time{}
}

// TestForgetfulServer: each message arrives from a server that sends again only on request, though messages, their
// repetitions and requests are lost, or refused.
func TestForgetfulServer(t *testing.T) {
	const messages, ahead = 10_000, 1000
	for _, test := range []struct {
		name    string
		refuses bool // now and then
		fails   bool // the path, now and then
		freezes bool // the server, now and then
		weather simnet.Weather
	}{
		{name: "loss", weather: simnet.Weather{Loss: .05, Latency: ms}},
		{name: "much loss", weather: simnet.Weather{Loss: .2, Latency: ms}},
		{name: "pressure", refuses: true, weather: simnet.Weather{Latency: ms}},
		{name: "outages", fails: true, weather: simnet.Weather{Latency: ms}},
		{name: "loss and outages", fails: true, weather: simnet.Weather{Loss: .05, Latency: ms}},
		{name: "loss and freezes", freezes: true, weather: simnet.Weather{Loss: .05, Latency: ms}},
		{name: "loss and pressure", refuses: true, weather: simnet.Weather{Loss: .05, Latency: ms}},
	} {
		for _, seed := range simnet.Seeds(3) {
			t.Run(fmt.Sprint(test.name, " ", seed), func(t *testing.T) {
				net, client, s := forgetfulPair(t, seed, test.weather)
				rng := rand.New(rand.NewPCG(seed, 1))
				for id := 0; len(client.got) < messages; {
					before := len(client.got)
					for n := rng.IntN(200); n > 0 && id < messages && id < before+ahead; n-- {
						s.say(binary.BigEndian.AppendUint32([]byte{0x86}, uint32(id)))
						id++
					}
					if test.refuses {
						pressure := []codec.Pressure{codec.NoPressure, codec.Hesitate, codec.Refuse}[rng.IntN(3)]
						client.conn.(*Conn).Throttle(net.Now(), pressure)
					}
					if test.freezes && rng.IntN(10) == 0 {
						s.frozen = net.Now().Add(time.Duration(rng.IntN(300)) * ms)
					}
					if test.fails && rng.IntN(3) == 0 {
						net.SetWeather(simnet.Weather{Loss: 1})
					}
					net.Run(time.Duration(rng.IntN(20)) * ms)
					net.SetWeather(test.weather)
					client.conn.(*Conn).Throttle(net.Now(), codec.NoPressure)
					if id == messages || id >= before+ahead {
						net.RunUntil(20*time.Second, func() bool { return len(client.got) > before })
						if len(client.got) == before {
							t.Fatalf("message %d of %d does not come", before, id)
						}
					}
				}
				for i, m := range client.got {
					if got := int(binary.BigEndian.Uint32(m.payload[1:])); got != i {
						t.Fatalf("message %d came as number %d", got, i)
					}
				}
			})
		}
	}
}

// TestForgetfulServerRefused refuses many messages, or some for long, while the game is silent otherwise. All arrive
// later, and a record can be restored meanwhile.
func TestForgetfulServerRefused(t *testing.T) {
	for _, test := range []struct {
		messages int
		pressure time.Duration
	}{{10, 6 * time.Second}, {maxMissing - 1, 100 * ms}, {maxMissing + 1, 100 * ms}, {3 * maxMissing, 100 * ms}} {
		net, client, s := forgetfulPair(t, 1, simnet.Weather{Latency: ms})
		s.say([]byte{0x86})
		net.Run(time.Second)
		conn := client.conn.(*Conn)
		conn.Throttle(net.Now(), codec.Refuse)
		for range test.messages {
			s.say([]byte{0x86})
		}
		net.Run(test.pressure)
		if _, err := New(Options{}).Restore(net.Now(), nil, conn.Save(net.Now(), nil)); err != nil {
			t.Error(err)
		}
		conn.Throttle(net.Now(), codec.NoPressure)
		net.Run(5 * time.Second)
		s.say([]byte{0x86})
		net.Run(20 * time.Second)
		if got, want := len(client.got), test.messages+2; got != want {
			t.Errorf("%d messages refused for %v: %d came of %d", test.messages, test.pressure, got, want)
		}
	}
}

// TestForgetfulServerFallsSilent: the last messages before a silence come, also when the path fails for a while.
func TestForgetfulServerFallsSilent(t *testing.T) {
	for _, outage := range []time.Duration{0, 400 * ms, 1500 * ms} {
		for _, seed := range simnet.Seeds(5) {
			net, client, s := forgetfulPair(t, seed, simnet.Weather{Latency: ms})
			rng := rand.New(rand.NewPCG(seed, 1))
			s.say([]byte{0x86})
			net.Run(time.Second)
			for said := 1; said < 440; said++ {
				s.say([]byte{0x86})
				if said%11 > 0 {
					net.SetWeather(simnet.Weather{Loss: .3, Latency: ms})
					net.Run(time.Duration(rng.IntN(4000)) * time.Microsecond)
					continue
				}
				net.SetWeather(simnet.Weather{Loss: 1})
				net.Run(outage)
				net.SetWeather(simnet.Weather{Latency: ms})
				s.say([]byte{0x86})
				said++
				if net.Run(8 * time.Second); len(client.got) != said+1 {
					t.Fatalf("outage %v, seed %d: %d came of %d", outage, seed, len(client.got), said+1)
				}
			}
		}
	}
}
