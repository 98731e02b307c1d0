package riptide

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

var forgedSessions = flag.Int("forged.sessions", 2, "sessions under each forger of numbers")

const (
	siegeStep  = 5 * time.Millisecond
	siegeDelay = 6 // steps that a datagram is under way
	siegeTime  = 30 * time.Second
)

// library22 is the library's sender of notify messages, as far as its rule of quality goes: it learns the fate of its
// messages from the peer's headers, and ends the session when 4 of the latest 64 are lost, 64 times in a row. It does
// not ask whether it has sent the messages that a header reports.
type library22 struct {
	acked   seq
	results [qualitySpan]bool
	told    int
	bad     int
	over    bool
}

func (l *library22) hear(h *notifyHeader) {
	for h.last.minus(l.acked) > 0 {
		l.acked++
		l.results[l.told%qualitySpan] = !h.arrived(l.acked)
		l.told++
		lost := 0
		for _, r := range l.results {
			if r {
				lost++
			}
		}
		if l.bad++; lost < 4 {
			l.bad = 0
		}
		l.over = l.over || l.bad >= 64
	}
}

// siegeSide is one end of a session under a forger's fire. The client's reports are like the library's.
type siegeSide struct {
	conn     *Conn
	every    [2]time.Duration // between two notify messages, and two reliable ones; zero: none
	sent     [2]int
	got      [2]map[uint32]int
	incoming [][][]byte // datagrams under way to this side, by step
	judge    library22  // of this side's messages, by the other side's headers
}

// forgery is a way to forge the numbers of a session.
type forgery struct {
	name  string
	below int // numbers are below it; zero: any
	mixed bool
}

// siege is a session under fire.
type siege struct {
	rng    *rand.Rand
	now    time.Time
	sides  [2]*siegeSide
	secret uint32
}

func newSiege(t *testing.T, seed uint64, every [2][2]time.Duration) *siege {
	p := newPair(t, Options{})
	s := &siege{rng: rand.New(rand.NewPCG(seed, 9)), now: p.now}
	s.secret = s.rng.Uint32()
	for i, c := range []*Conn{p.client, p.server} {
		s.sides[i] = &siegeSide{conn: c, every: every[i], incoming: make([][][]byte, siegeDelay)}
		s.sides[i].got = [2]map[uint32]int{{}, {}}
	}
	return s
}

// talk has a side send the messages that are due.
func (s *siege) talk(side *siegeSide, since time.Duration) {
	for i, mode := range []codec.Mode{codec.Notify, codec.Reliable} {
		if side.every[i] == 0 || since < time.Duration(side.sent[i])*side.every[i] {
			continue
		}
		b := binary.BigEndian.AppendUint32(nil, s.secret)
		b = binary.BigEndian.AppendUint32(b, uint32(side.sent[i]))
		if n := &side.conn.notifier; !side.conn.server {
			n.reported = n.last // as the library reports
		}
		if side.conn.Send(s.now, codec.Message{Mode: mode, Payload: b}) == nil {
			side.sent[i]++
		}
	}
}

// hear gives a side a datagram. It counts the messages of the other side.
func (s *siege) hear(side *siegeSide, d []byte) {
	_ = side.conn.Receive(s.now, d)
	for _, e := range codectest.Drain(side.conn) {
		if e.Kind != codec.Received || len(e.Payload) != 8 || binary.BigEndian.Uint32(e.Payload) != s.secret {
			continue
		}
		i := 0
		if e.Mode == codec.Reliable {
			i = 1
		}
		side.got[i][binary.BigEndian.Uint32(e.Payload[4:])]++
	}
}

// step plays one step. fire returns the forged datagrams of this step to one side.
func (s *siege) step(since time.Duration, fire func(toServer bool) [][]byte) {
	for i, side := range s.sides {
		arrived := side.incoming[0]
		side.incoming = append(side.incoming[1:], nil)
		for _, d := range arrived {
			if side.conn.dialect.kindOf(d) == kindNotify {
				var h notifyHeader
				_ = h.parse(d)
				side.judge.hear(&h)
			}
			s.hear(side, d)
		}
		for _, d := range fire(i == 1) {
			s.hear(side, d)
		}
		side.conn.Advance(s.now)
		codectest.Drain(side.conn)
		s.talk(side, since)
		other := s.sides[1-i]
		other.incoming[siegeDelay-1] = append(other.incoming[siegeDelay-1], codectest.Transmit(side.conn, s.now)...)
	}
	s.now = s.now.Add(siegeStep)
}

func (s *siege) over() bool {
	for _, side := range s.sides {
		if side.conn.state == closed || side.judge.over {
			return true
		}
	}
	return false
}

// forged returns a datagram of a forger.
func (f *forgery) forged(rng *rand.Rand, toServer bool) []byte {
	if f.mixed {
		return forge(V22)(rng, toServer)
	}
	guess := func() seq {
		if f.below > 0 {
			return seq(rng.IntN(f.below))
		}
		return seq(rng.Uint32())
	}
	switch rng.IntN(4) {
	case 0:
		a := ack{last: guess(), forSeq: guess(), bits: uint16(rng.Uint32())}
		return a.append(v22, nil)
	default:
		h := notifyHeader{last: guess(), seq: guess(), bits: uint8(rng.Uint32())}
		return v22.append(nil, kindNotify, h.append(nil), []byte{1, 2, 3}, 0)
	}
}

// TestForgedNumbers has forgers send notify messages and acknowledgements with guessed numbers to both sides of a young
// session. No session may end, by our rules or by the library's at the other end.
func TestForgedNumbers(t *testing.T) {
	const ms = time.Millisecond
	traffics := map[string][2][2]time.Duration{
		"10 notify/s each way":      {{100 * ms, 0}, {100 * ms, 0}},
		"40 notify/s each way":      {{25 * ms, 100 * ms}, {25 * ms, 100 * ms}},
		"40 notify/s to the client": {{0, 100 * ms}, {25 * ms, 0}},
		"10 notify/s, 2/s back":     {{500 * ms, 100 * ms}, {100 * ms, 0}},
	}
	forgeries := []forgery{
		{name: "below 250", below: 250}, {name: "below 600", below: 600}, {name: "any"}, {name: "mixed", mixed: true},
	}
	for traffic, every := range traffics {
		for _, f := range forgeries {
			for _, rate := range []float64{0, 0.2, 1, 10, 100, 1000} {
				t.Run(fmt.Sprintf("%s, %s, %v/s", traffic, f.name, rate), func(t *testing.T) { f.attack(t, every, rate) })
			}
		}
	}
}

// attack fires at sessions with the given traffic, rate datagrams a second at each side.
func (f *forgery) attack(t *testing.T, every [2][2]time.Duration, rate float64) {
	var ended, sent, lost int
	for seed := range uint64(*forgedSessions) {
		s := newSiege(t, seed, every)
		due := s.rng.Float64()
		for at := time.Duration(0); at < siegeTime && !s.over(); at += siegeStep {
			due += rate * siegeStep.Seconds()
			n := int(due)
			due -= float64(n)
			s.step(at, func(toServer bool) (all [][]byte) {
				for range n {
					all = append(all, f.forged(s.rng, toServer))
				}
				return all
			})
		}
		if s.over() {
			ended++
		}
		for i, side := range s.sides {
			other := s.sides[1-i]
			sent += side.sent[0]
			lost += side.sent[0] - len(other.got[0])
			if missing := side.sent[1] - len(other.got[1]); missing > 2 && !s.over() {
				t.Errorf("%d of %d reliable messages missing", missing, side.sent[1])
			}
		}
	}
	if ended > 0 {
		t.Errorf("%d of %d sessions ended", ended, *forgedSessions)
	}
	t.Logf("%d of %d notify messages lost, or under way in the end", lost, sent)
}
