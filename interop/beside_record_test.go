//go:build interop

package interop_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"tidegate/internal/testkit/await"
)

// serverSays takes an event of the server.
func (s *stage) serverSays(now time.Time, e event) {
	switch e.Event {
	case "joined":
		s.joined++
	case "left":
		s.left++
		s.leftWhy = e.Reason
	case "told":
		s.told["server: "+e.Name] = true
	case "figure":
		s.figures[e.Name] = max(s.figures[e.Name], e.Figure)
	case "received":
		if n, ok := numberOf(e.Payload); ok {
			s.heard[n]++
			s.last = time.Now()
		}
	}
}

func cmpMap(m map[int]int) map[int]int {
	if m == nil {
		return make(map[int]int)
	}
	return m
}

// playerSays takes an event of a player.
func (s *stage) playerSays(now time.Time, p *player, e event) {
	switch e.Event {
	case "begins":
		p.up, p.ended = false, false
		if !p.comes || p.began.IsZero() {
			p.began = now
		}
	case "connected":
		p.up, p.was = true, true
		kind := "in"
		if p.comes {
			kind = "back"
		}
		p.comes = false
		if p.began.IsZero() { // it has not told
			return
		}
		s.times[kind] = max(s.times[kind], now.Sub(p.began))
	case "refused", "disconnected":
		p.up, p.ended = false, true
		s.told[fmt.Sprintf("%s %d", e.Event, e.Reason)] = true
	case "figure":
		s.figures["player's "+e.Name] = e.Figure
	case "gone":
		if !s.leaving.IsZero() {
			s.times["others told"] = now.Sub(s.leaving)
		}
	case "received":
		n, ok := numberOf(e.Payload)
		if !ok {
			return
		}
		own := s.sent[n].from == toAll
		if n < p.newest[own] {
			s.lateIn++
		}
		p.newest[own] = max(p.newest[own], n)
		p.heard[n]++
		s.last = now
	}
}

// Numbered messages: the packet byte, four bytes of number, and as many bytes as wished.
const numberedSize = 5

func burstMessage(o order, i int) []byte {
	m := make([]byte, max(o.Size, numberedSize))
	m[0] = packetByte
	binary.BigEndian.PutUint32(m[1:], uint32(o.First+i))
	return m
}

func numberOf(payload string) (n int, ok bool) {
	b, err := hex.DecodeString(payload[:min(len(payload), 2*numberedSize)])
	if err != nil || len(b) < numberedSize || b[0] != packetByte {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(b[1:])), true
}

// say has one player, or the server (toAll), send numbered messages.
func (s *stage) say(who int, o order) {
	s.mu.Lock()
	o.Do, o.First, o.Reliable = "burst", s.next, true
	s.next += o.Count
	p := s.server
	if who != toAll {
		p, o.Player = s.players[who].peer, int(s.players[who].number)
	}
	for i := range o.Count {
		s.sent[o.First+i] = letter{who, o.Size}
	}
	if s.said.IsZero() {
		s.said = time.Now()
	}
	s.mu.Unlock()
	_ = p.do(o) // to a dead peer it is lost
}

// missing counts what has not come back, or has not come down.
func (s *stage) missing() (n int) {
	for number, sent := range s.sent {
		if sent.from != toAll {
			arrived := s.players[sent.from].heard[number]
			if sent.size > echoed || s.row.oneWay {
				arrived = s.heard[number]
			}
			if arrived == 0 {
				n++
			}
			continue
		}
		for _, p := range s.players {
			if p.heard[number] == 0 {
				n++
			}
		}
	}
	return n
}

// doubled counts what came more than once to either side.
func (s *stage) doubled() (n int) {
	for _, times := range s.heard {
		n += max(0, times-1)
	}
	for _, p := range s.players {
		for _, times := range p.heard {
			n += max(0, times-1)
		}
	}
	return n
}

func (s *stage) up() (n int) {
	for _, p := range s.players {
		if p.up {
			n++
		}
	}
	return n
}

// within waits for a condition, under the lock.
func (s *stage) within(limit time.Duration, done func() bool) bool {
	return await.Within(limit, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return done()
	})
}

// pass lets time go by.
func (s *stage) pass(d time.Duration) { await.Within(d, func() bool { return false }) }

// outcome is what a play came to.
type outcome struct {
	players, in, alive      int
	asked                   bool // each player at the end
	lost, doubled, disorder int
	times                   map[string]time.Duration
	figures                 map[string]float64
	told                    []string
}

// probing is the longest time that a living player needs to hear an echo.
const probing = 4 * time.Second

// outcome asks each player once more, and returns what happened.
func (s *stage) outcome() outcome {
	s.hushed()
	s.mu.Lock()
	o := outcome{players: len(s.players), in: s.in(), lost: s.missing() + s.missed, doubled: s.doubled(), times: s.times,
		figures: s.figures, told: slices.Sorted(maps.Keys(s.told))}
	if s.row.kit.ordered {
		o.disorder = s.lateIn
	}
	first := s.next
	s.mu.Unlock()
	if s.row.kit.server == nil || s.row.mute {
		return o
	}
	o.asked = true
	for i := range s.players {
		s.say(i, order{Count: 1, Size: 20})
	}
	answered := func() (n int) {
		for i, p := range s.players {
			if p.heard[first+i] > 0 {
				n++
			}
		}
		return n
	}
	s.within(probing, func() bool { o.alive = answered(); return o.alive == len(s.players) })
	s.mu.Lock()
	defer s.mu.Unlock()
	o.told = slices.Sorted(maps.Keys(s.told))
	return o
}

func (s *stage) in() (n int) {
	for _, p := range s.players {
		if p.was {
			n++
		}
	}
	return n
}

// signal stops or resumes a process.
func (s *stage) signal(p int, sig syscall.Signal) {
	if err := syscall.Kill(p, sig); err != nil {
		s.t.Errorf("%v: %v", sig, err)
	}
}
