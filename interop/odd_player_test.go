//go:build interop

package interop_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/oddplayer"
)

// oddPlayers are the players who visit a server: one of each protocol of the listener.
func oddPlayers() []oddplayer.Options {
	calm := func(name string) codec.Protocol { return protocols.Find(name).NewCalm(registry.Use{}) }
	return []oddplayer.Options{
		{Protocol: raknet.New(raknet.Options{DialVersion: 11, Bits: true}), Mangle: oddplayer.RakNet},
		{Protocol: calm("riptide-2.2")},
		{Protocol: calm("enet")},
	}
}

// TestOddPlayerHarmsNoOther has odd players visit servers of every library with their default options, for
// TIDEGATE_ATTACK or some seconds. Another player goes on, and a new one gets in: neither waits for longer than
// unnoticed.
func TestOddPlayerHarmsNoOther(t *testing.T) {
	for _, to := range slices.Concat(attackedServers(), []contender{rustServer}) {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			player, between, server := meetBy(t, goClient, to, route{failover: "allow_lossy = true"})
			go func() {
				for range server.events { // the odd players' messages
				}
			}()
			done := make(chan struct{})
			time.AfterFunc(attackTime(t), func() { close(done) })
			var visits, joined [3]int
			var visitors sync.WaitGroup
			for i, o := range oddPlayers() {
				o.At, o.Seed = netipAt(between.ports[udp]), rand.Uint64()
				t.Logf("%s: seed %d", o.Protocol.Spec().Name, o.Seed)
				visitors.Go(func() { visits[i], joined[i] = oddplayer.Run(t, o, done) })
			}
			longest := exchange(t, done, player)
			visitors.Wait()
			begun := time.Now()
			late := startGoClient(t, between.ports[udp])
			late.await(t, "connected")
			longest = max(longest, time.Since(begun), exchange(t, done, player, late))
			t.Logf("%d visits, %d got in; longest wait of another player: %v", visits, joined, longest.Round(time.Millisecond))
			if longest > unnoticed || slices.Contains(joined[:2], 0) {
				t.Errorf("another player waited for %v, want at most %v; got in: %d", longest, unnoticed, joined)
			}
		})
	}
}
