package codectest

import (
	"bytes"
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// grantLimit bounds each step of a handshake.
const grantLimit = 3 * time.Second

// checkGrant delays the Granter's server before its grant, and the client, dialed ahead, before Introduce. Then they
// connect, or the server refuses instead of granting.
func checkGrant(t tb, c *Config) {
	if server, _ := c.New(1); !isGranter(server) {
		return
	}
	simulate(t, "grant", func(r *report) { grantLate(r, c, 1, clear20) })
	simulateSeeds(t, foulSeeds, func(r *report, seed uint64) { grantLate(r, c, seed, foul.net) })
	for _, f := range c.Deferred {
		simulate(t, fmt.Sprintf("refuse for %v instead of a grant", f.Sent.Reason), func(r *report) {
			p := dialAhead(r, c, 1, clear20)
			if p == nil {
				return
			}
			p.closeAndCheck(p.server, f.Sent)
			if p.client.granted || p.server.wasAsked || !sameGoodbye(p.client.goodbye, f.Received) {
				r.Errorf("goodbye %+v heard as %+v, want %+v", f.Sent, p.client.goodbye, f.Received)
			}
		})
	}
}

func isGranter(p codec.Protocol) bool {
	_, ok := p.(codec.Granter)
	return ok
}

// dialAhead returns a pair whose client waits for its grant, or nil.
func dialAhead(r *report, c *Config, seed uint64, weather simnet.Weather) *pair {
	p := newPair(r, c, seed, weather)
	p.ahead = true
	p.dial(c.New, seed)
	p.net.RunUntil(grantLimit, func() bool { return p.server.conn != nil })
	if p.server.conn == nil {
		r.Errorf("server: no client within %v", grantLimit)
		return nil
	}
	p.waitRandomly()
	if p.client.granted || p.server.wasAsked || p.client.over {
		r.Errorf("before Grant: client granted %v, over %v; server asked %v",
			p.client.granted, p.client.over, p.server.wasAsked)
	}
	if got := p.server.conn.(codec.Deferrer).Identity(); p.c.HelloIdentity && got != p.hello.Identity {
		r.Errorf("server: the client's identity is %x, want %x", got, p.hello.Identity)
	}
	return p
}

// waitRandomly advances the time by up to a second.
func (p *pair) waitRandomly() { p.net.Run(time.Duration(p.rng.Int64N(int64(time.Second)))) }

// grantLate plays one session and returns the digest of its datagrams.
func grantLate(r *report, c *Config, seed uint64, weather simnet.Weather) uint64 {
	p := dialAhead(r, c, seed, weather)
	if p == nil {
		return 0
	}
	const server = 4711
	p.server.conn.(codec.Deferrer).Grant(p.net.Now(), server)
	p.net.RunUntil(grantLimit, func() bool { return p.client.granted })
	p.waitRandomly()
	if !p.client.granted || p.client.grantedBy != server || p.server.wasAsked {
		r.Errorf("before Introduce: client granted %v by %d, want %d; server asked %v",
			p.client.granted, p.client.grantedBy, server, p.server.wasAsked)
	}
	lent := p.hello
	lent.Data = bytes.Clone(p.hello.Data)
	p.client.conn.(codec.Introducer).Introduce(p.net.Now(), lent)
	clear(lent.Data)
	if p.mustConnect() {
		p.closeAndCheck(p.client, codec.Goodbye{Reason: codec.Closed})
	}
	return p.net.Digest()
}
