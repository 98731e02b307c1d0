package codectest

import (
	"time"

	"tidegate/codec"
)

// tentativeTime is how long a client waits before it confirms.
const tentativeTime = 2 * time.Second

// checkConfirm dials tentatively, if the protocol can, in bad network conditions. The server has no client before
// Confirm. After Confirm the session works like any other and delivers the messages sent meanwhile. A client may also
// leave without Confirm.
func checkConfirm(t tb, c *Config) {
	for _, confirms := range []bool{true, false} {
		failed := 0
		runs := simulateSeeds(t, foulSeeds, func(r *report, seed uint64) {
			if _, ok := tentative(r, c, seed, confirms); !ok {
				failed++
			}
		})
		if failed > 1+runs/excusedShare {
			t.Errorf("%d of %d handshakes failed", failed, runs)
		}
	}
}

// tentative plays one session and returns the digest of its datagrams, and false if the server never accepted the
// client.
func tentative(r *report, c *Config, seed uint64, confirms bool) (uint64, bool) {
	p := newPair(r, c, seed, foul.net)
	p.hello.Tentative = true
	p.dial(c.New, seed)
	if _, ok := p.client.conn.(codec.Confirmer); !ok {
		return 0, true
	}
	p.client.sendOneOfEach(p.net.Now())
	p.net.RunUntil(c.DialTimeout, func() bool { return p.client.connected || p.client.over })
	if p.client.over {
		return 0, false
	}
	p.net.Run(tentativeTime)
	switch {
	case p.server.connected:
		r.Errorf("server: Connected without Confirm")
	case confirms:
		p.confirm()
	default:
		p.leaveUnconfirmed()
	}
	return p.net.Digest(), true
}

func (p *pair) confirm() {
	for range 2 { // the second has no effect
		p.client.conn.(codec.Confirmer).Confirm(p.net.Now())
		p.client.drain(p.net.Now())
	}
	if !p.mustConnect() {
		return
	}
	p.server.sendOneOfEach(p.net.Now())
	p.runUntilSettled(false)
	p.closeAndCheck(p.client, p.c.Leaves[0].Sent)
	p.client.conn.(codec.Confirmer).Confirm(p.net.Now())
	p.client.drain(p.net.Now())
}

func (p *pair) leaveUnconfirmed() {
	p.closeOver(p.client)
	p.up.checkReceipts()
	if p.runUntilOver(); p.server.connected {
		p.r.Errorf("server: Connected by a client that left without Confirm")
	}
}
