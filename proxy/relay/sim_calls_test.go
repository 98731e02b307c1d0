package relay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/nethernet"
	"tidegate/codec/raknet"
)

// callWorld has RakNet's players before a NetherNet server, in virtual time: real checks of ICE, and in place of DTLS
// and SCTP the records of the simulation with RakNet within.
type callWorld struct {
	*world
	ice    *iceServer
	names  map[*nethernet.Peer]*edgeNames
	stacks []*simStack
	asked  int
	refuse bool // the next question
}

func newCallWorld(t testing.TB, seed uint64) *callWorld {
	w := &callWorld{names: make(map[*nethernet.Peer]*edgeNames)}
	route := defaultRoute(NetherNet)
	route.Upstream.Joiner = w
	w.world = newWorld(t, seed, weatherKinds[seed%uint64(len(weatherKinds))], raknet.New(raknet.Bedrock()), route)
	w.ice = &iceServer{
		raknet.New(raknet.Options{}), make(map[string]*edgeNames), make(map[string]netip.AddrPort), &judge{TB: t},
	}
	w.servers[0].protocol = w.ice
	return w
}

// soon runs what another goroutine would do, and lets the Relay take a turn.
func (w *callWorld) soon(after time.Duration, do func()) {
	w.After(after, func() {
		do()
		w.proxy.relay.Advance(w.Now())
	})
}

// Join implements Joiner. The server's answer takes 20 ms.
func (w *callWorld) Join(_ netip.AddrPort, wake func()) Question {
	q := new(fakeQuestion)
	w.asked++
	if w.refuse {
		w.refuse = false
		w.soon(20*time.Millisecond, func() {
			q.err = &nethernet.Refusal{Status: 200, Text: "37"}
			wake()
		})
		return q
	}
	n := &edgeNames{
		fmt.Sprintf("srv%d", w.asked), fmt.Sprintf("the server's password %d", w.asked),
		fmt.Sprintf("cli%d", w.asked), fmt.Sprintf("the client's password %d", w.asked),
	}
	w.ice.names[n.username()] = n
	p := new(nethernet.Peer)
	w.names[p] = n
	w.soon(20*time.Millisecond, func() {
		q.answer = &nethernet.Answer{
			Peer: p, Target: serverAddr, Ufrag: n.clientUfrag, Password: n.clientPassword,
			PeerUfrag: n.serverUfrag, PeerPassword: n.serverPassword, Seed: uint64(w.asked),
		}
		wake()
	})
	return q
}

// Dial implements Joiner.
func (w *callWorld) Dial(p *nethernet.Peer, wake func()) (nethernet.Stack, error) {
	now := w.Now()
	s := &simStack{w: w, wake: wake, paused: true, ice: &iceConn{
		Conn:  w.ice.Dial(now, serverAddr, codec.Hello{Identity: uint64(len(w.stacks) + 1)}),
		names: w.names[p], asks: true, chosen: 1, seen: make(map[uint32]bool),
	}}
	w.stacks = append(w.stacks, s)
	s.pump()
	return s, nil
}

// simStack is the Relay's stack towards the server. It implements nethernet.Stack.
type simStack struct {
	w         *callWorld
	ice       *iceConn
	wake      func()
	out       nethernet.Delivery
	waiting   []codec.Message // while it is paused
	paused    bool
	abandoned bool
	due       time.Time // of the next tick
}

// pump takes what the connection has for the Relay.
func (s *simStack) pump() {
	if s.abandoned {
		return
	}
	now := s.w.Now()
	for ev, ok := s.ice.Poll(); ok; ev, ok = s.ice.Poll() {
		switch ev.Kind {
		case codec.Connected:
			s.out.Open = true
		case codec.Received:
			ev.Payload = bytes.Clone(ev.Payload)
			s.waiting = append(s.waiting, ev.Message)
		case codec.Disconnected:
			s.out.End.Reason = ev.Reason
		}
	}
	for !s.paused && len(s.waiting) > 0 {
		m := s.waiting[0]
		s.out.AddMessage(m.Payload[1:], m.Mode == codec.ReliableOrdered)
		s.waiting = s.waiting[1:]
	}
	for p, ok := s.ice.next(now); ok; p, ok = s.ice.next(now) {
		s.out.AddDatagram(p.bytes)
	}
	s.w.soon(0, s.wake)
	if next := s.ice.Conn.NextTimeout(); !next.IsZero() && (s.due.IsZero() || next.Before(s.due)) {
		s.due = next
		s.w.After(max(0, next.Sub(now)), func() {
			if s.due != next || s.abandoned {
				return
			}
			s.due = time.Time{}
			s.ice.Conn.Advance(s.w.Now())
			s.pump()
		})
	}
}

func (s *simStack) Datagram(b []byte) {
	_ = s.ice.receiveRecord(s.w.Now(), b)
	s.pump()
}

func (s *simStack) Send(b []byte, reliable bool) error {
	mode := codec.Unreliable
	if reliable {
		mode = codec.ReliableOrdered
	}
	err := s.ice.Send(s.w.Now(), codec.Message{Mode: mode, Payload: append([]byte{0xfe}, b...)})
	s.pump()
	return err
}

func (s *simStack) Take(to *nethernet.Delivery) { s.out.MoveTo(to) }
func (s *simStack) Load() (queued, held int)    { return 0, 0 }
func (s *simStack) RTT() time.Duration          { return 0 }
func (s *simStack) Abandon()                    { s.abandoned = true }

func (s *simStack) Pause(on bool) {
	if s.paused = on; !on {
		s.pump()
	}
}

func (s *simStack) Close(string) {
	s.ice.Close(s.w.Now(), codec.Goodbye{Reason: codec.Closed})
	s.pump()
}

// callSeeds is the number of games of TestSimulateCalls without -simulate and -games. With them it plays one for ten
// stories, or for a tenth of the time.
const callSeeds = 10

// TestSimulateCalls plays with RakNet's players on a NetherNet server in all kinds of weather. Every message comes back
// once and in order. Players leave, are kicked and vanish; the server refuses one. Nothing of them stays.
func TestSimulateCalls(t *testing.T) {
	seeds := simnet.Seeds(callSeeds)
	if first := cmp.Or(simnet.Seed(), uint64(time.Now().UnixNano())); *simulateGames > 0 || *simulateFor > 0 {
		t.Logf("first seed %d", first)
		seeds = nil
		for i := range uint64(max(*simulateGames/10, int(*simulateFor/(10*time.Second)))) {
			seeds = append(seeds, first+i)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playCalls(t, seed) })
	}
}

func playCalls(t *testing.T, seed uint64) {
	const players, messages = 4, 40
	w := newCallWorld(t, seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	var all []*player
	for range players {
		all = append(all, w.connect(codec.Hello{}))
	}
	for i := range uint64(messages) {
		for _, p := range all {
			payload := append(binary.BigEndian.AppendUint64([]byte{0xfe}, i), make([]byte, rng.IntN(3000))...)
			w.send(&p.peer, codec.Message{Mode: codec.ReliableOrdered, Payload: payload})
		}
		w.Run(time.Duration(rng.IntN(100)) * time.Millisecond)
	}
	for who, p := range all {
		w.await("all messages are back", time.Minute, func() bool { return len(p.received()) >= messages })
		for i, m := range p.received() {
			if got := binary.BigEndian.Uint64(m.Payload[1:]); got != uint64(i) || len(p.received()) != messages {
				t.Fatalf("player %d: message %d of %d is number %d", who, i, len(p.received()), got)
			}
		}
	}
	all[0].conn.Close(w.Now(), codec.Goodbye{})
	w.servers[0].peers[1].conn.Close(w.Now(), codec.Goodbye{})
	w.Remove(all[2].addr)
	w.await("the kicked player is told", time.Minute, all[1].gone)
	w.await("only one session stays", 2*time.Minute, func() bool { return w.proxy.relay.Len() == 1 })
	w.refuse = true
	refused := w.join(codec.Hello{})
	w.await("a player is refused", time.Minute, refused.gone)
	w.proxy.relay.Drain(w.Now())
	w.await("nothing is left", 2*time.Minute, func() bool {
		return w.proxy.relay.Len() == 0 && len(w.proxy.relay.calls.all) == 0
	})
	for i, s := range w.stacks {
		if !s.abandoned {
			t.Errorf("stack %d lives", i)
		}
	}
	for at, s := range w.proxy.sockets {
		if at != listenerAddr && !s.closed {
			t.Errorf("the socket %v is open", at)
		}
	}
}
