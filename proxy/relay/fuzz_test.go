package relay

import (
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// Operations of FuzzRelay. Each is a byte, followed by its arguments.
const (
	relayRaw      byte = iota // sender, length, datagram
	relayExchange             // rounds in which all honest datagrams are delivered
	relayAlter                // sender, number of changes, then a place and a value each: of an honest datagram
	relayReplay               // sender, which honest datagram
	relayLose                 // all honest datagrams under way are lost
	relayPass                 // a time
	relaySay                  // which end, mode, size, first bytes
	relayClose                // which end, reason
	relayRefuse               // which socket: its server's host reports a closed port
	relayBan                  // which player
	relayKick                 // which session
	relayOpCount
)

var relayTimes = [...]time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 4 * time.Second,
	11 * time.Second, 40 * time.Second,
}

// fuzzPairs returns every protocol as clients of itself and of its successor in the list, in several settings.
func fuzzPairs() (all []*fuzzPair) {
	family := udpMembers(nil)
	for i, m := range family {
		next := family[(i+3)%len(family)]
		all = append(all, newFuzzPair(m.Protocol, m.Protocol, policy.AdmitAuto, policy.ModeTerminate, 0))
		all = append(all, newFuzzPair(m.Protocol, next.Protocol, policy.Admit(i%3), policy.ModeTerminate, 5*time.Second))
		all = append(all, newFuzzPair(m.Protocol, m.Protocol, policy.AdmitAuto, policy.ModeRelay, 0))
	}
	return all
}

// FuzzRelay plays a story to a Relay with honest players and servers: their datagrams, changed ones, those of a
// stranger, time, losses, bans, refusals. The Relay's books must be right after each input. After a drain nothing may
// be left. Captures of real peers seed the stories.
func FuzzRelay(f *testing.F) {
	f.Cleanup(func(percent int) func() { return func() { debug.SetGCPercent(percent) } }(debug.SetGCPercent(400)))
	pairs := fuzzPairs()
	datagrams := captured(f, 2)
	for i := range pairs {
		f.Add(byte(i), relayStory(i))
		var strange []byte
		for j := i; j < len(datagrams) && j < i+60; j += 5 {
			if d := datagrams[j]; len(d) < 256 {
				strange = append(append(strange, relayRaw, byte(j%4), byte(len(d))), d...)
			}
		}
		f.Add(byte(i), strange)
	}
	f.Fuzz(func(t *testing.T, pair byte, story []byte) {
		w := newFuzzWorld(t, pairs[int(pair)%len(pairs)])
		for n := 0; n < 120 && len(story) > 0 && w.steps < fuzzSteps; n++ {
			story = w.play(story)
		}
		w.end()
	})
}

// relayStory uses each operation. Players join first.
func relayStory(i int) []byte {
	join := []byte{relayPass, 0, relayExchange, 7, relayPass, 2, relayExchange, 7, relayPass, 2, relayExchange, 7}
	talk := []byte{relaySay, 0, 2, 9, 0x90, 1, 2, 3, relaySay, 2, 2, 9, 0x90, 1, 2, 3, relayExchange, 5}
	more := []byte{
		relayAlter, 0, 1, byte(i), 7, relayAlter, 2, 1, byte(i), 7, relayReplay, 0, 1, relayLose, relayPass, 4,
		relayExchange, 7,
	}
	ends := [][]byte{
		{relayClose, 0, 9}, {relayClose, 2, 11}, {relayRefuse, 0, relayRefuse, 0, relayRefuse, 0}, {relayBan, 0},
		{relayKick, 0}, {relayPass, 7},
	}
	return slices.Concat(join, talk, more, talk, ends[i%len(ends)], join, []byte{relayPass, 6, relayExchange, 7})
}

// play plays the first operation of a story, and returns the rest.
func (w *fuzzWorld) play(story []byte) []byte {
	next := func() byte {
		if len(story) == 0 {
			return 0
		}
		b := story[0]
		story = story[1:]
		return b
	}
	take := func(n int) []byte {
		n = min(n, len(story))
		b := story[:n]
		story = story[n:]
		return b
	}
	switch next() % relayOpCount {
	case relayRaw:
		from := next()
		w.forge(from, take(int(next())))
	case relayExchange:
		w.exchange(1 + int(next()%8))
	case relayAlter:
		from, changes := next(), next()
		changed := slices.Clone(w.memory[uint(w.recall+fuzzMemory-1)%fuzzMemory])
		for range changes & 7 {
			if at := int(next()); at < len(changed) {
				changed[at] = next()
			}
		}
		w.forge(from, changed)
	case relayReplay:
		from := next()
		w.forge(from, w.memory[next()%fuzzMemory])
	case relayLose:
		w.toRelay = nil
	case relayPass:
		w.pass(relayTimes[next()%byte(len(relayTimes))])
	case relaySay:
		m := codec.Message{Mode: codec.Mode(next() % byte(codec.ModeCount)), HasID: true, ID: 5}
		if e := w.speaker(next()); e != nil {
			size := int(next())
			m.Payload = append(slices.Clone(take(min(size, 4))), make([]byte, size*size/16)...)
			_ = e.conn.Send(w.now, m)
			w.settle(e)
		}
	case relayClose:
		if e := w.speaker(next()); e != nil {
			e.conn.Close(w.now, codec.Goodbye{Reason: codec.Reason(next()) % codec.Reason(codec.ReasonCount)})
			w.settle(e)
		}
	case relayRefuse:
		if n := next(); len(w.dialed) > 0 {
			if s := w.dialed[int(n)%len(w.dialed)]; !s.closed {
				w.relay.Failed(w.now, s, nil)
				w.flush()
			}
		}
	case relayBan:
		p := w.players[next()%2]
		w.relay.guard.Bans.Offend(w.now, p.addr.Addr(), "story")
		w.relay.EnforceBans(w.now)
		w.flush()
	case relayKick:
		w.kick(next())
	}
	w.now = w.now.Add(100 * time.Microsecond)
	return story
}

// forge gives the Relay a datagram in the name of a player, a stranger or a server.
func (w *fuzzWorld) forge(from byte, b []byte) {
	switch from %= 4; {
	case from < 2:
		w.receive(w.listens, w.players[from].addr, b)
	case from == 2:
		w.receive(w.listens, strangerAddr(int(from)), b)
	case len(w.dialed) > 0:
		s := w.dialed[len(w.dialed)-1]
		w.receive(s, s.peer, b)
	}
	w.flush()
}

// speaker returns an honest end, or nil.
func (w *fuzzWorld) speaker(n byte) *fuzzEnd {
	ends := w.ends()
	if e := ends[int(n)%len(ends)]; e.conn != nil {
		return e
	}
	return nil
}

// kick ends a session as an operator does.
func (w *fuzzWorld) kick(n byte) {
	i := 0
	for e := range w.relay.table.All {
		if i++; i > int(n%fuzzSessions) {
			_ = w.relay.kick(w.now, e, "enough")
			break
		}
	}
	w.flush()
}
