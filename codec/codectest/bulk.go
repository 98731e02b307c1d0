package codectest

import (
	"errors"
	"time"

	"tidegate/codec"
)

const (
	bulkMessages = 200       // sent at once
	fillSize     = 1000      // bytes of each message that fills a queue
	maxFill      = 100_000   // messages that must reach any bound
	fillLimit    = time.Hour // virtual time for a full queue to empty
)

// checkBulk sends much more than the network takes at once, both ways, in bad network conditions.
func checkBulk(t tb, c *Config) {
	for _, m := range c.modes {
		if !m.IsReliable() {
			continue
		}
		simulateSeeds(t, foulSeeds, func(r *report, seed uint64) {
			p := connectedPair(r, c, seed)
			if p == nil {
				return
			}
			p.net.SetWeather(foul.net)
			for _, s := range []*side{p.client, p.server} {
				for range bulkMessages {
					size := min(fillSize, c.MaxPayload(m)-maxIDSize)
					s.plan = append(s.plan, planned{at: p.net.Now(), mode: m, size: size, receipt: true})
				}
			}
			p.runUntilSettled(false)
			p.closeAndCheck(p.client, c.Leaves[0].Sent)
		})
	}
}

// checkQueueFull sends without Transmit until the queue is full. The bound must exist. Accepted messages arrive,
// refused messages do not.
func checkQueueFull(t tb, c *Config) {
	for _, m := range c.modes {
		if !m.IsReliable() {
			continue // an unreliable message over the bound may be dropped instead
		}
		simulate(t, m.String(), func(r *report) {
			p := connectedPair(r, c, 1)
			if p == nil {
				return
			}
			p.fill(m)
			if !p.net.RunUntil(fillLimit, p.up.settled) {
				r.Errorf("a full queue did not empty within %v", fillLimit)
			}
			p.up.checkArrivals(false)
			p.closeAndCheck(p.client, c.Leaves[0].Sent)
		})
	}
}

// fill sends from the client until it gets ErrFull.
func (p *pair) fill(m codec.Mode) {
	size := min(fillSize, p.c.MaxPayload(m)-maxIDSize)
	for range maxFill {
		message := p.up.compose(m, 0, size, 0, true)
		err := p.client.conn.Send(p.net.Now(), message)
		if errors.Is(err, codec.ErrFull) {
			return
		}
		if err != nil {
			p.r.Errorf("Send to a queue not full: %v", err)
			return
		}
		p.up.accepted(message)
	}
	p.r.Errorf("no ErrFull after %d messages of %d bytes", maxFill, size)
}
