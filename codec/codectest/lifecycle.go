package codectest

import (
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/simnet"
)

const lifecycleSeeds = 20 // of those checks that run in foul weather too

// checkLeaves lets the client say each of its goodbyes.
func checkLeaves(t tb, c *Config) { checkFarewells(t, c, "leave", c.Leaves, clientName) }

// checkKicks lets the server say each of its goodbyes to a client in session.
func checkKicks(t tb, c *Config) { checkFarewells(t, c, "kick", c.Kicks, serverName) }

// checkFarewells ends a session by each goodbye, and checks what the other side hears. In foul weather the goodbye may
// be lost, and then the other side notices the silence.
func checkFarewells(t tb, c *Config, what string, farewells []Farewell, sayer string) {
	for i, f := range farewells {
		play := func(r *report, w simnet.Weather, seed uint64) (heard codec.Goodbye, ok bool) {
			p := connectedPair(r, c, seed)
			if p == nil {
				return codec.Goodbye{}, false
			}
			p.net.SetWeather(w)
			speaker, listener := p.client, p.server
			if sayer == serverName {
				speaker, listener = p.server, p.client
			}
			p.closeAndCheck(speaker, f.Said)
			return listener.goodbye, true
		}
		simulate(t, fmt.Sprintf("%s %d", what, i), func(r *report) {
			if heard, ok := play(r, clear20, 1); ok && !sameGoodbye(heard, f.Heard) {
				r.Errorf("goodbye %+v heard as %+v, want %+v", f.Said, heard, f.Heard)
			}
		})
		simulateSeeds(t, lifecycleSeeds, func(r *report, seed uint64) {
			heard, ok := play(r, foul.net, seed)
			if ok && !sameGoodbye(heard, f.Heard) && !isSilence(heard.Reason) {
				r.Errorf("goodbye %+v heard as %+v, want %+v or a time-out", f.Said, heard, f.Heard)
			}
		})
	}
}

// isSilence reports whether a session with the reason ended because nothing was heard.
func isSilence(reason codec.Reason) bool {
	return reason == codec.TimedOut || reason == codec.PoorConnection
}

// checkRefusals answers Asked by each refusal.
func checkRefusals(t tb, c *Config) {
	for i, f := range c.Refusals {
		simulate(t, fmt.Sprintf("refusal %d", i), func(r *report) {
			p := newPair(r, c, 1, clear20)
			p.server.admitAfter = -1
			p.dial(c.New, 1)
			if !p.net.RunUntil(c.DialTimeout, func() bool { return p.server.wasAsked || p.client.over }) || p.client.over {
				r.Errorf("server: never Asked")
				return
			}
			p.net.Run(50 * time.Millisecond)
			p.closeAndCheck(p.server, f.Said)
			if p.client.connected || p.server.connected {
				r.Errorf("Connected in spite of the refusal")
			}
			if !sameGoodbye(p.client.goodbye, f.Heard) {
				r.Errorf("refusal %+v heard as %+v, want %+v", f.Said, p.client.goodbye, f.Heard)
			}
		})
	}
}

// checkStatelessRefusal lets the server turn everybody away without a Conn.
func checkStatelessRefusal(t tb, c *Config) {
	if c.StatelessRefusal == codec.ReasonNone {
		return
	}
	simulate(t, "stateless refusal", func(r *report) {
		p := newPair(r, c, 1, clear20)
		p.dial(c.New, 1)
		p.node.full = true
		p.net.RunUntil(c.DialTimeout, func() bool { return p.client.over })
		if p.client.connected || p.client.goodbye.Reason != c.StatelessRefusal {
			r.Errorf("client: over %v with %v, want %v", p.client.over, p.client.goodbye.Reason, c.StatelessRefusal)
		}
	})
}

// checkCloseEarly closes the dialing side at several points of its handshake, with messages waiting.
func checkCloseEarly(t tb, c *Config) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond} {
		simulate(t, fmt.Sprintf("close after %v", after), func(r *report) {
			p := newPair(r, c, 1, clear20)
			p.server.admitAfter = -1
			p.dial(c.New, 1)
			p.client.sendOneOfEach(p.net.Now())
			p.net.Run(after)
			p.closeOver(p.client)
			p.up.checkReceipts()
		})
	}
}

// closeOver closes one side, twice, and checks that it is over in time.
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
	for _, m := range s.c.modes() {
		s.send(now, planned{mode: m, size: s.c.smallest(), receipt: true})
	}
}

// checkVanish cuts the path to a peer, of an idle session and of one with messages under way: the other side notices
// in time, and reports those messages lost.
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

// checkNoAnswer dials where nobody answers.
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

// checkNews announces clients that join and leave, in foul weather: each piece of news comes once.
func checkNews(t tb, c *Config) {
	if !c.News {
		simulate(t, "no news", func(r *report) {
			if p := connectedPair(r, c, 1); p != nil {
				p.refusesNews(p.server)
			}
		})
		return
	}
	simulateSeeds(t, lifecycleSeeds, func(r *report, seed uint64) {
		p := connectedPair(r, c, seed)
		if p == nil {
			return
		}
		p.refusesNews(p.client)
		p.net.SetWeather(foul.net)
		want := []uint16{1001, 1002, 65535}
		for _, id := range want {
			for _, kind := range []codec.EventKind{codec.Joined, codec.Left} {
				if err := p.server.conn.Announce(p.net.Now(), kind, id); err != nil {
					r.Errorf("server: Announce %v: %v", kind, err)
				}
			}
		}
		p.net.Run(quiet)
		for _, heard := range [][]uint16{p.client.joined, p.client.left} {
			if slices.Sort(heard); !slices.Equal(heard, want) {
				r.Errorf("client: heard of %v joining or leaving, want %v", heard, want)
			}
		}
	})
}

// refusesNews checks that a side which cannot announce says so.
func (p *pair) refusesNews(s *side) {
	if err := s.conn.Announce(p.net.Now(), codec.Joined, 1); !isMode(err) {
		p.r.Errorf("%s: Announce: %v, want ErrMode", s.name, err)
	}
}
