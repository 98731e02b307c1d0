package codectest

import (
	"testing"
	"time"

	"tidegate/codec"
)

const (
	forgedRounds = 80 // of honest traffic after the forged datagram
	forgedRound  = 100 * time.Millisecond
	forgedTalk   = 8 // messages of each side, before and after
)

// FuzzForged fuzzes a single forged datagram in a session of honest peers, for all subjects. The session must live,
// and the peers' reliable messages must arrive. The first byte of an input chooses the side that gets the datagram. The
// fuzzer may find numbers and secrets that a blind forger has to guess.
func FuzzForged(f *testing.F, subjects []Subject, captures []Capture) {
	for i, s := range subjects {
		server, _ := s.New()
		for _, c := range captures {
			client := c.Clients()[0]
			if lines := c.From(client, "client"); c.Stream || len(lines) == 0 || !server.Sniff(lines[0].Datagram) {
				continue
			}
			for n, l := range c.Of(client)[:min(len(c.Of(client)), 2*seedCaptures)] {
				f.Add(byte(i), append([]byte{byte(n & 1)}, l.Datagram...))
			}
		}
	}
	f.Fuzz(func(t *testing.T, subject byte, input []byte) {
		if len(input) > 1 && len(input) <= codec.MaxDatagram {
			playForged(t, subjects[int(subject)%len(subjects)], input[0]&1 != 0, input[1:])
		}
	})
}

func playForged(t testing.TB, subject Subject, dialing bool, forged []byte) {
	s := newStory(t, subject, dialing, 0)
	s.open()
	if !s.target.connected || !s.peer.connected {
		t.Fatalf("%s: no session", subject.Name)
	}
	s.steps = -forgedRounds * storySteps // time has no bound here
	mode, sent := strongestMode(s.server), [2]int{}
	talk := func() {
		for i, a := range s.actors() {
			if a.conn.Send(s.now, codec.Message{Mode: mode, HasID: true, ID: 5, Payload: []byte{0x90, 2, 3, 4}}) == nil {
				sent[i]++
			}
			a.settle()
		}
		s.exchange(storyExchange)
		s.pass(forgedRound)
		s.exchange(storyExchange)
	}
	for range forgedTalk {
		talk()
	}
	s.deliver(s.target, forged)
	for i := range forgedRounds {
		if i < forgedTalk {
			talk()
			continue
		}
		s.pass(forgedRound)
		s.exchange(storyExchange)
	}
	for i, a := range s.actors() {
		to := s.other(a)
		if a.over {
			a.failf("one forged datagram ended the session: %x", forged)
		}
		if mode.IsReliable() && to.heardReliable < sent[i] {
			to.failf("one forged datagram cost messages: %d of %d arrived: %x", to.heardReliable, sent[i], forged)
		}
	}
}

// strongestMode returns a reliable mode, if the protocol has one.
func strongestMode(p codec.Protocol) codec.Mode {
	for _, m := range []codec.Mode{codec.ReliableOrdered, codec.Reliable} {
		if p.Spec().Modes.Has(m) {
			return m
		}
	}
	return lowestMode(p)
}
