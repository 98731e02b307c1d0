package codectest

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

const (
	hostileSeeds      = 20
	hostileDatagrams  = 400 // injected into one simulation
	hostileSamples    = 64  // remembered genuine datagrams of each direction
	hostileMaxRandom  = 100 // bytes of a random datagram, usually
	hostileMaxLong    = 1500
	hostileMaxChanges = 4
)

// hostileSource makes datagrams that a peer, or a forger of its address, might send.
type hostileSource struct {
	rng     *rand.Rand
	samples [][]byte // genuine datagrams, all delivered by now
	seen    int
}

// observe takes a genuine datagram into the samples, which are a fair choice of all datagrams so far.
func (h *hostileSource) observe(datagram []byte) {
	h.seen++
	if len(h.samples) < hostileSamples {
		h.samples = append(h.samples, append([]byte(nil), datagram...))
	} else if i := h.rng.IntN(h.seen); i < hostileSamples {
		h.samples[i] = append(h.samples[i][:0], datagram...)
	}
}

// next returns a hostile datagram, and whether a forger made it up. Replays and truncated datagrams only repeat the
// peer's own bytes.
func (h *hostileSource) next() (datagram []byte, forged bool) {
	if len(h.samples) == 0 {
		return h.random(), true
	}
	genuine := append([]byte(nil), h.samples[h.rng.IntN(len(h.samples))]...)
	switch h.rng.IntN(6) {
	case 0:
		return h.random(), true
	case 1:
		return genuine, false
	case 2:
		return genuine[:h.rng.IntN(len(genuine))], false
	case 3:
		return append(genuine[:1+h.rng.IntN(len(genuine))], h.random()...), true
	default:
		for range 1 + h.rng.IntN(hostileMaxChanges) {
			genuine[h.rng.IntN(min(len(genuine), 32))] = byte(h.rng.Uint32())
		}
		return genuine, true
	}
}

func (h *hostileSource) random() []byte {
	size := h.rng.IntN(hostileMaxRandom)
	if h.rng.IntN(20) == 0 {
		size = h.rng.IntN(hostileMaxLong)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(h.rng.Uint32())
	}
	return b
}

// checkHostile plays sessions under attack by hostile datagrams. In the first run no datagram is able to change a
// session: the session survives, and all reliable traffic arrives. In the second run the attack also has Forgeable
// datagrams. They may change the session, but nothing may panic and the contract's order of events holds.
func checkHostile(t tb, c *Config) {
	simulateSeeds(t, hostileSeeds, func(r *report, seed uint64) {
		if p := attackedPair(r, c, seed, c.Forgeable); p != nil {
			p.runUntilSettled(false)
			p.closeAndCheck(p.client, c.Leaves[0].Sent)
		}
	})
	if c.Forgeable == nil {
		return
	}
	simulateSeeds(t, hostileSeeds, func(r *report, seed uint64) {
		if p := attackedPair(r, c, seed, nil); p != nil {
			p.up.lenient, p.down.lenient = true, true
			p.net.Run(settleLimit)
			p.closeAndCheck(p.client, c.Leaves[0].Sent)
		}
	})
}

// attackedPair returns a pair that hostile datagrams will reach, or nil. The attack leaves out forged datagrams for
// which except is true.
func attackedPair(r *report, c *Config, seed uint64, except func([]byte) bool) *pair {
	p := newPair(r, c, seed, clear20)
	toServer, toClient := p.tap()
	if !p.open(seed, false) {
		return nil
	}
	p.client.plan, p.server.plan = p.compose(c.modes), p.compose(c.modes)
	p.up.strange, p.down.strange = true, true
	for i := range hostileDatagrams {
		p.net.After(time.Duration(i)*time.Millisecond, func() { p.inject(toServer, toClient, except) })
	}
	return p
}

// tap lets two hostile sources observe the datagrams between client and server, after they have arrived.
func (p *pair) tap() (toServer, toClient *hostileSource) {
	toServer, toClient = &hostileSource{rng: p.rng}, &hostileSource{rng: p.rng}
	p.net.SetTap(func(_, to netip.AddrPort, datagram []byte) {
		h := toServer
		switch to {
		case strangerAddr:
			return
		case clientAddr:
			h = toClient
		}
		copied := append([]byte(nil), datagram...)
		p.net.After(clear20.Latency+time.Millisecond, func() { h.observe(copied) })
	})
	return toServer, toClient
}

// inject sends a hostile datagram in each direction, unless it is forged and except is true for it.
func (p *pair) inject(toServer, toClient *hostileSource, except func([]byte) bool) {
	for _, way := range []struct {
		from, to netip.AddrPort
		h        *hostileSource
	}{{clientAddr, serverAddr, toServer}, {serverAddr, clientAddr, toClient}, {strangerAddr, serverAddr, toServer}} {
		if datagram, forged := way.h.next(); !forged || except == nil || !except(datagram) {
			p.net.Inject(0, way.from, way.to, datagram)
		}
	}
}
