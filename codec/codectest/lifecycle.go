package codectest

import (
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// checkCloseEarly closes the dialing side at several points of its handshake, with messages waiting. A server that was
// asked and never answers must notice too, even if the goodbye is lost.
func checkCloseEarly(t tb, c *Config) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond} {
		for _, lost := range []bool{false, true} {
			simulate(t, fmt.Sprintf("close after %v, lost %v", after, lost), func(r *report) {
				p := newPair(r, c, 1, clear20)
				p.server.admitAfter = -1
				p.dial(c.New, 1)
				p.client.sendOneOfEach(p.net.Now())
				p.net.Run(after)
				if lost {
					p.net.SetWeather(simnet.Weather{Loss: 1})
				}
				p.closeOver(p.client)
				p.up.checkReceipts()
				limit := max(c.Timeout, c.DialTimeout)
				if p.server.conn != nil && !p.net.RunUntil(limit, func() bool { return p.server.over }) {
					r.Errorf("server: a client that left its handshake not noticed within %v", limit)
				}
			})
		}
	}
}

// closeOver closes one side twice, and checks that its session ends in time.
func (p *pair) closeOver(s *side) {
	closed := codec.Goodbye{Reason: codec.Closed}
	s.close(p.net.Now(), closed)
	p.net.Run(time.Millisecond)
	s.close(p.net.Now(), closed)
	if !p.net.RunUntil(p.c.Timeout, func() bool { return s.over }) {
		p.r.Errorf("%s: no Disconnected within %v of Close", s.name, p.c.Timeout)
	}
	p.net.Run(time.Second)
	s.close(p.net.Now(), closed)
}

const (
	flushSeeds    = 6
	flushMessages = 20 // of each reliable mode
	flushTime     = 10 * time.Second
)

// checkFlush closes a side right after it has sent. If its goodbye waits for an acknowledgement, all its messages in
// reliable modes must arrive first.
func checkFlush(t tb, c *Config) {
	simulateSeeds(t, flushSeeds, func(r *report, seed uint64) {
		p := connectedPair(r, c, seed)
		if p == nil {
			return
		}
		p.net.Run(time.Second)
		s := p.client
		if seed%2 == 0 || s.out.fixed != nil {
			s = p.server
		}
		for range flushMessages {
			for _, m := range c.modes {
				if m == codec.Reliable || m == codec.ReliableOrdered {
					s.send(p.net.Now(), planned{mode: m, size: max(usualSize, c.smallest())})
				}
			}
		}
		s.close(p.net.Now(), codec.Goodbye{Reason: codec.Closed})
		if s.over { // it says goodbye at once
			return
		}
		p.net.Run(flushTime)
		for i := range s.out.records {
			if n := s.out.records[i].arrivals; n != 1 {
				r.Errorf("%s: message %d, sent before Close, arrived %d times", s.name, i, n)
			}
		}
	})
}

// checkCloseBoth closes both sides at once, with messages under way.
func checkCloseBoth(t tb, c *Config) {
	simulate(t, "close both", func(r *report) {
		p := connectedPair(r, c, 1)
		if p == nil {
			return
		}
		p.client.sendOneOfEach(p.net.Now())
		p.server.sendOneOfEach(p.net.Now())
		p.server.close(p.net.Now(), codec.Goodbye{Reason: codec.Closed})
		p.closeOver(p.client)
		p.runUntilOver()
	})
}

// sendOneOfEach sends a message with a receipt in each mode.
func (s *side) sendOneOfEach(now time.Time) {
	for _, m := range s.c.modes {
		s.send(now, planned{mode: m, size: s.c.smallest(), receipt: true})
	}
}

// checkVanish cuts the path to a peer, once in an idle session and once with messages under way. The other side must
// notice in time, and report those messages lost.
func checkVanish(t tb, c *Config) {
	for _, gone := range []string{clientName, serverName} {
		for _, busy := range []bool{false, true} {
			simulate(t, fmt.Sprintf("%s vanishes, busy %v", gone, busy), func(r *report) {
				p := connectedPair(r, c, 1)
				if p == nil {
					return
				}
				p.net.Run(time.Second)
				p.vanish(gone, busy)
			})
		}
	}
}

func (p *pair) vanish(gone string, busy bool) {
	addr, left, sent := clientAddr, p.server, p.down
	if gone == serverName {
		addr, left, sent = serverAddr, p.client, p.up
	}
	p.net.Remove(addr)
	if busy {
		left.sendOneOfEach(p.net.Now())
	}
	if !p.net.RunUntil(p.c.Timeout, func() bool { return left.over }) {
		p.r.Errorf("%s: silence not noticed within %v", left.name, p.c.Timeout)
		return
	}
	if !isSilence(left.goodbye.Reason) {
		p.r.Errorf("%s: over with %v, want a time-out", left.name, left.goodbye.Reason)
	}
	sent.checkReceipts()
}

// checkNoAnswer dials an address that never answers.
func checkNoAnswer(t tb, c *Config) {
	simulate(t, "no answer", func(r *report) {
		p := newPair(r, c, 1, simnet.Weather{Loss: 1})
		p.dial(c.New, 1)
		p.client.sendOneOfEach(p.net.Now())
		if !p.net.RunUntil(c.DialTimeout, func() bool { return p.client.over }) {
			r.Errorf("client: still dialing after %v", c.DialTimeout)
			return
		}
		if p.client.connected || p.client.goodbye.Reason != codec.NoConnection {
			r.Errorf("client: over with %v, want %v", p.client.goodbye.Reason, codec.NoConnection)
		}
		p.up.checkReceipts()
		p.net.Run(time.Second)
	})
}
