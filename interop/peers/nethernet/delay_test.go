//go:build interop

package nethernet

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testkit/rakserver"
)

// TestAddedDelay measures round trips of 200 players of pion that send 200 bytes twice a second: at a server of
// pion, and through the program to it and to go-raknet. TIDEGATE_DELAY is the number of rounds. A round plays each way
// once, so that what else the machine does meets all of them.
func TestAddedDelay(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("TIDEGATE_DELAY"))
	if err != nil {
		t.Skip("a measurement for a quiet machine: set TIDEGATE_DELAY to the number of rounds")
	}
	const room = "[limits]\nsessions_per_address = 300"
	ways := []struct {
		name  string
		start func(*testing.T, keys) (netip.AddrPort, keys)
	}{
		{"direct", func(t *testing.T, k keys) (netip.AddrPort, keys) { return startGame(t, k, true).http, k }},
		{"edge", func(t *testing.T, k keys) (netip.AddrPort, keys) {
			at, _, _ := startTidegate(t, startGame(t, k, true).http, loopback.Addr().String(), room)
			return at, k
		}},
		{"bridge to NetherNet", func(t *testing.T, k keys) (netip.AddrPort, keys) {
			g := startGame(t, keys{server: k.server}, true)
			at, _ := startBefore(t, g.http, room)
			return at, keys{client: k.client} // Tidegate makes its own
		}},
		{"bridge to RakNet", func(t *testing.T, k keys) (netip.AddrPort, keys) {
			at, _, _ := startBridge(t, rakserver.Start(t, rakserver.Echo), "identity = \"none\"\n"+room)
			return at, keys{client: k.client}
		}},
	}
	k := newKeys(t)
	medians, tails := make([][]time.Duration, len(ways)), make([][]time.Duration, len(ways))
	for range rounds {
		for i, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				at, k := way.start(t, k)
				took := roundTrips(t, k, at.String())
				medians[i], tails[i] = append(medians[i], took[len(took)/2]), append(tails[i], took[len(took)*99/100])
			})
		}
	}
	for i, way := range ways {
		middle := func(all [][]time.Duration) (whole, added time.Duration) {
			differences := slices.Clone(all[i])
			for n := range differences {
				differences[n] -= all[0][n]
			}
			return median(all[i]), median(differences)
		}
		p50, more50 := middle(medians)
		p99, more99 := middle(tails)
		t.Logf("%-20s p50 %v (added %v), p99 %v (added %v), each p99 %v", way.name, p50, more50, p99, more99, tails[i])
	}
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// roundTrips lets 200 players join and play for 10 s. It returns their round trips, sorted. No garbage is collected in
// the players' and servers' process meanwhile: that would take both cores for milliseconds.
func roundTrips(t *testing.T, k keys, at string) (all []time.Duration) {
	t.Helper()
	const count, pause, messages = 200, 500 * time.Millisecond, 20
	players := make([]*player, count)
	for i := range players {
		players[i] = join(t, k, at)
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	began := time.Now()
	took := make([][]time.Duration, count)
	var done sync.WaitGroup
	for i, p := range players {
		done.Go(func() {
			time.Sleep(pause * time.Duration(i) / count)
			for range messages {
				message := make([]byte, 200)
				binary.LittleEndian.PutUint64(message, uint64(time.Since(began)))
				send(t, p.reliable, message)
				time.Sleep(pause)
			}
		})
		done.Go(func() {
			for range messages {
				select {
				case m := <-p.got:
					took[i] = append(took[i], time.Since(began)-time.Duration(binary.LittleEndian.Uint64(m)))
				case <-time.After(patience):
					t.Error("a message is missing")
					return
				}
			}
		})
	}
	done.Wait()
	all = slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(all) != count*messages {
		t.Fatalf("%d of %d messages came back", len(all), count*messages)
	}
	return all
}
