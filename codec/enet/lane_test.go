package enet

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

var laneSessions = flag.Int("enet.lanes", 20, "sessions of TestForgedNumbers")

// looseModes are the modes whose messages have numbers of their own kind.
var looseModes = []codec.Mode{codec.UnreliableSequenced, codec.Unreliable}

// looseFlow sends unreliable messages on channel 0, and reliable ones beside them, and counts the losses.
type looseFlow struct {
	mode       codec.Mode
	every      time.Duration
	reliable   time.Duration // 0: none
	sent, lost int
	worst      int // messages lost in a row
	row        int
}

// play has the client send for a time. forge returns the datagrams of a forger at a moment.
func (f *looseFlow) play(t *testing.T, seconds int, forge func(at time.Duration, now time.Time, c [2]*Conn) [][]byte) {
	t.Helper()
	const step = 10 * time.Millisecond
	now, conns := joined(t)
	for at := time.Duration(0); at < time.Duration(seconds)*time.Second; at += step {
		now := now.Add(at)
		before := f.sent
		if at%f.every == 0 {
			f.sent++
			_ = conns[1].Send(now, codec.Message{Mode: f.mode, Payload: fmt.Append(nil, "own", f.sent)})
		}
		if f.reliable > 0 && at%f.reliable == 0 {
			_ = conns[1].Send(now, codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("reliable")})
		}
		for _, d := range forge(at, now, conns) {
			_ = conns[0].Receive(now, d)
			codectest.Drain(conns[0])
		}
		got := 0
		for _, d := range codectest.Transmit(conns[1], now) {
			_ = conns[0].Receive(now, d)
			for e, ok := conns[0].Poll(); ok; e, ok = conns[0].Poll() {
				if e.Kind == codec.Received && e.Mode == f.mode && string(e.Payload) == fmt.Sprint("own", f.sent) {
					got++
				}
			}
		}
		for _, d := range codectest.Transmit(conns[0], now) {
			_ = conns[1].Receive(now, d)
		}
		for _, c := range conns {
			c.Advance(now)
			codectest.Drain(c)
		}
		switch {
		case f.sent == before:
		case got == 0:
			f.lost++
			f.row++
			f.worst = max(f.worst, f.row)
		default:
			f.row = 0
		}
	}
}

// forgedLoose appends an unreliable message of a forger.
func forgedLoose(b []byte, mode codec.Mode, reliable, number uint16) []byte {
	k, flags := kindUnreliable, uint8(0)
	if mode == codec.Unreliable {
		k, flags, reliable = kindUnsequenced, flagUnsequenced, 0
	}
	b = be.AppendUint16(appendCommand(b, k, flags, 0, reliable), number)
	return append(be.AppendUint16(b, 6), "forged"...)
}

// TestForgedJump has a forger that knows all IDs send one or two messages with numbers ahead, near and far. The peer's
// own messages go on after a moment, also on a channel without reliable messages.
func TestForgedJump(t *testing.T) {
	for _, mode := range looseModes {
		for _, jumps := range [][]uint16{
			{2}, {20}, {200}, {250, 500, 750}, {1000, 2000, 3000}, {5000}, {5000, 5001}, {30000, 30001}, {60000, 60001},
		} {
			f := looseFlow{mode: mode, every: 50 * time.Millisecond}
			f.play(t, 60, func(at time.Duration, now time.Time, conns [2]*Conn) (all [][]byte) {
				if at != 2*time.Second {
					return nil
				}
				for _, n := range jumps {
					newest := conns[0].in.channel(0).unreliable
					if mode == codec.Unreliable {
						newest = conns[0].groupsIn.newest
					}
					if newest > 100 {
						newest = 40
					}
					all = append(all, forgedLoose(forgedHead(now, conns), mode, 0, newest+n))
				}
				return all
			})
			if f.worst > laneLength {
				t.Errorf("%v, jumps %v: %d of %d messages lost, %d in a row", mode, jumps, f.lost, f.sent, f.worst)
			}
		}
	}
	f := looseFlow{mode: codec.UnreliableSequenced, every: 50 * time.Millisecond}
	f.play(t, 60, func(at time.Duration, now time.Time, conns [2]*Conn) [][]byte {
		if at != 2*time.Second {
			return nil
		}
		next := conns[0].in.channel(0).reliable + 1
		return [][]byte{append(appendCommand(forgedHead(now, conns), kindReliable, flagAck, 0, next), 0, 1, 'x')}
	})
	if f.worst > laneLength {
		t.Errorf("a forged reliable message: %d of %d messages lost, %d in a row", f.lost, f.sent, f.worst)
	}
}

// TestForgedNumbers has a blind forger guess the IDs and the numbers of unreliable messages of young sessions for 30 s.
// The log has the losses, which docs/security/forgers.md states.
func TestForgedNumbers(t *testing.T) {
	for _, below := range []uint32{300, 1 << 16} {
		for _, rate := range []float64{0.2, 1, 10, 100, 1000} {
			for _, mode := range looseModes {
				lost, sent, worst := 0, 0, 0
				for seed := range uint64(*laneSessions) {
					rng := rand.New(rand.NewPCG(seed, uint64(rate*10)))
					due := rng.Float64()
					f := looseFlow{mode: mode, every: 50 * time.Millisecond}
					f.play(t, 30, func(at time.Duration, now time.Time, conns [2]*Conn) (all [][]byte) {
						for due += rate / 100; due >= 1; due-- {
							h := header{peer: uint16(rng.IntN(maxID + 1)), session: uint8(rng.IntN(4))}
							d := h.append(nil)
							if rng.IntN(4) == 0 {
								h.timed, h.time = true, uint16(rng.Uint32())
								d = append(appendCommand(h.append(nil), kindReliable, flagAck, 0, uint16(rng.Uint32N(below))), 0, 1, 'x')
							} else {
								d = forgedLoose(d, mode, uint16(rng.Uint32N(2)), uint16(rng.Uint32N(below)))
							}
							all = append(all, d)
						}
						return all
					})
					lost, sent, worst = lost+f.lost, sent+f.sent, max(worst, f.worst)
				}
				t.Logf("%v, numbers below %d, %v/s: %d of %d lost, at most %d in a row", mode, below, rate, lost, sent, worst)
				if worst > 2*laneLength {
					t.Errorf("%v, numbers below %d, %v/s: %d messages in a row", mode, below, rate, worst)
				}
			}
		}
	}
}
