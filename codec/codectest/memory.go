package codectest

import (
	"fmt"
	"runtime"
	"time"
)

const (
	memoryDatagrams = 20_000 // received by each side
	memoryRound     = 16     // inputs for each Transmit round
	memorySessions  = 50     // at most, if hostile datagrams end the sessions
	memoryLarge     = 8      // one Transmit round in so many has large messages, which may be cut up
	memoryLargest   = 6000   // bytes of such a message
)

// checkMemory floods both sides of sessions with hostile datagrams of all kinds, and bounds how much memory that adds.
// If a session ends, another follows. If sessions end too soon to grow, the flood leaves out more kinds of datagrams.
func checkMemory(t tb, c *Config) {
	sent := 0
	for _, except := range []func([]byte) bool{c.FatalIfForged, c.Forgeable} {
		for seed := uint64(1); sent < memoryDatagrams && seed <= memorySessions; seed++ {
			ok := simulate(t, fmt.Sprintf("memory, seed %d", seed), func(r *report) {
				sent += floodSession(r, c, seed, memoryDatagrams-sent, except)
			})
			if !ok {
				return
			}
		}
	}
	if sent < memoryDatagrams {
		t.Errorf("memory: sessions ended after %d datagrams in all: extend Config.FatalIfForged by the fatal ones", sent)
	}
}

// floodSession floods one session and bounds its growth. It returns how many datagrams the session lived.
func floodSession(r *report, c *Config, seed uint64, n int, except func([]byte) bool) int {
	p := newPair(r, c, seed, clear20)
	toServer, toClient := p.tap()
	if !p.open(seed, false) {
		return 0
	}
	before := heap()
	sent := p.flood(toServer, toClient, n, except)
	*p.up, *p.down = ledger{}, ledger{} // the suite's own records do not count
	if after := heap(); after > before+c.MaxMemory {
		r.Errorf("hostile datagrams made a session grow by %d bytes, want at most %d", after-before, c.MaxMemory)
	} else if counted := p.held(); after > before+counted+c.MaxSpare {
		r.Errorf("hostile datagrams made a session grow by %d bytes, and it counts only %d", after-before, counted)
	}
	runtime.KeepAlive(p)
	return sent
}

// flood gives both sides up to n hostile datagrams. It returns how many until a side was over.
func (p *pair) flood(toServer, toClient *hostileSource, n int, except func([]byte) bool) int {
	p.up.lenient, p.down.lenient = true, true
	now := p.net.Now()
	if p.flooded.After(now) {
		now = p.flooded
	}
	for i := range n {
		now = now.Add(time.Millisecond)
		p.flooded = now
		for _, way := range []struct {
			to      *side
			h, back *hostileSource
		}{{p.server, toServer, toClient}, {p.client, toClient, toServer}} {
			if datagram, forged := way.h.next(); !forged || except == nil || !except(datagram) {
				way.to.receive(now, datagram)
			}
			way.to.advance(now)
			if i%memoryRound == 0 {
				way.to.transmitAll(now, way.back)
			}
			if way.to.over {
				return i + 1
			}
		}
	}
	return n
}

// transmitAll runs a Transmit round whose datagrams are only observed.
func (s *side) transmitAll(now time.Time, h *hostileSource) {
	switch {
	case s.over:
	case s.rng.IntN(memoryLarge) == 0:
		s.sendLarge(now)
	default:
		s.sendOneOfEach(now)
	}
	for range maxRound {
		b, ok := s.transmit(now, nil)
		if !ok {
			return
		}
		h.observe(b)
	}
	s.r.Errorf("%s: Transmit round did not end after %d datagrams", s.name, maxRound)
}

// sendLarge sends a large message in each mode.
func (s *side) sendLarge(now time.Time) {
	for _, m := range s.c.modes {
		size := min(memoryLargest, s.c.MaxPayload(m)-maxIDSize)
		s.send(now, planned{mode: m, size: max(size, s.c.smallest())})
	}
}

// heap returns the number of live bytes on the heap.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
