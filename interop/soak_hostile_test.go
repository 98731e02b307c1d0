//go:build interop && soak && linux

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// attack starts hostile senders: a forger in the names of all players and of the server, if this is root, and hostile
// players of each protocol. R-Type has no defence, and is spared.
func (s *soak) attack(t *testing.T) {
	t.Helper()
	ports := map[string]string{udp: s.ports["public"], "packets": s.ports["public"]}
	s.siege = &siege{t: t, between: &proxy{process: s.gate.process, ports: ports}}
	t.Cleanup(s.endAttack)
	s.hostile(func(h *hostile) {
		for n := 0; !h.stop.Load(); n++ {
			kind := insiders[n%len(insiders)]
			if ports[kind.route] == "" {
				continue
			}
			from := fmt.Sprintf("127.201.%d.%d", n%200, 1+h.rng.IntN(200))
			if a, err := newAttacker(h.rng, from, ports[kind.route]); err == nil {
				kind.act(a, h)
				_ = a.conn.Close()
			}
		}
	})
	raw, err := newRawSocket()
	if err != nil {
		t.Logf("no forged addresses without root: %v", err)
		return
	}
	s.hostile(func(h *hostile) {
		door := netip.MustParseAddrPort("127.0.0.1:" + s.ports["public"])
		for !h.stop.Load() {
			players := udpPeers(door.Port())
			for _, p := range players {
				raw.send(p, door, forgedDatagram(h.rng))
				h.pause()
			}
			if len(players) == 0 {
				h.pause()
			}
		}
	})
}

func (s *soak) hostile(act func(h *hostile)) {
	s.siege.attacks.Go(func() {
		h := newHostile(s.siege, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)))
		defer h.ticks.Stop()
		act(h)
	})
}

func (s *soak) endAttack() {
	if s.siege != nil {
		s.siege.stop.Store(true)
		s.siege.attacks.Wait()
	}
}
