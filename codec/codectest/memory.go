package codectest

import (
	"runtime"
	"time"
)

const (
	memoryDatagrams = 20_000 // received by each side
	memoryRound     = 16     // inputs for each Transmit round
	memorySessions  = 50     // at most, if hostile datagrams end them
)

// checkMemory floods both sides of sessions with hostile datagrams of all kinds, whatever they do to the session, and
// bounds by how much that makes them grow. A session that ends is followed by another.
func checkMemory(t tb, c *Config) {
	simulate(t, "memory", func(r *report) {
		worst, sent := uint64(0), 0
		for seed := uint64(1); sent < memoryDatagrams && seed <= memorySessions && !r.Failed(); seed++ {
			p := newPair(r, c, seed, clear20)
			toServer, toClient := p.eavesdrop()
			if !p.open(seed, false) {
				return
			}
			before := heap()
			sent += p.flood(toServer, toClient, memoryDatagrams-sent)
			*p.up, *p.down = ledger{}, ledger{} // what the suite itself remembers does not count
			if after := heap(); after > before {
				worst = max(worst, after-before)
			}
			runtime.KeepAlive(p)
		}
		if sent < memoryDatagrams/2 {
			r.Errorf("%d sessions ended after %d datagrams in all: name in Config.Ends what ends them", memorySessions, sent)
		}
		if worst > c.MaxMemory {
			r.Errorf("hostile datagrams made a session grow by %d bytes, want at most %d", worst, c.MaxMemory)
		}
	})
}

// flood gives both sides up to n hostile datagrams, and reports how many until one of them was over.
func (p *pair) flood(toServer, toClient *hostility, n int) int {
	p.up.lenient, p.down.lenient = true, true
	now := p.net.Now()
	for i := range n {
		now = now.Add(time.Millisecond)
		for _, way := range []struct {
			from, to *side
			h, back  *hostility
		}{{p.client, p.server, toServer, toClient}, {p.server, p.client, toClient, toServer}} {
			if datagram, forged := way.h.next(); !forged || p.c.Ends == nil || !p.c.Ends(datagram) {
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
func (s *side) transmitAll(now time.Time, h *hostility) {
	if !s.over {
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

// heap is how many bytes live on the heap.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
