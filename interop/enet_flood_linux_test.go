//go:build interop

package interop_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/codec"
	"tidegate/codec/enet"
	"tidegate/internal/lossylink"
)

// The flood of TestENetFlood.
const (
	floodRate   = 5000 // Connects a second
	floodTime   = 4 * time.Second
	honestPause = 20 * time.Millisecond // between two messages of the honest player
)

// TestENetFlood floods the binary before a real server with valid Connects, each from another source that never
// answers: lsalzman/enet issue 278. The server hears of none of them, whether they come once or three times. A player
// who plays loses no message. Another one gets in: during the flood if it asks once, and after it in any case, while
// the server would need half a minute to recover. Without Tidegate such a flood takes all places of the server.
func TestENetFlood(t *testing.T) {
	for _, repeats := range []int{1, 3} {
		t.Run(fmt.Sprintf("each Connect %d times", repeats), func(t *testing.T) {
			t.Parallel()
			enetFlood(t, repeats)
		})
	}
}

func enetFlood(t *testing.T, repeats int) {
	server := libenetPeer.server(t)
	var connects atomic.Int64
	count := func(toServer bool, datagram []byte) bool {
		if toServer && len(datagram) >= 2 && binary.BigEndian.Uint16(datagram) == 0x8fff {
			connects.Add(1)
		}
		return false
	}
	loopback, to := netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:"+server.port)
	link, err := lossylink.StartAt(loopback, to, 1<<15, lossylink.Loss{Chosen: count})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Stop() })
	between := startTidegate(t, route{
		protocol: "enet", transport: udp, server: portOf(t, link.Addr().String()), admit: "auto",
	})
	player := libenetPeer.client(t, between.ports[udp])
	player.await(t, "connected")
	server.await(t, "joined")
	quiet := play(t, player, server, floodTime/3)
	connects.Store(0)
	stop, sent := floodConnects(t, between.ports[udp], repeats)
	busy := play(t, player, server, floodTime)
	if repeats > 1 {
		stop() // it takes the places and the handshakes of new players, but none of the server
	}
	late := libenetPeer.client(t, between.ports[udp])
	asked := time.Now()
	late.await(t, "connected")
	took := time.Since(asked)
	if repeats == 1 {
		stop()
	}
	server.await(t, "joined")
	if got := connects.Load(); got > 2 { // the new player's; another one if its answer is late
		t.Errorf("%d forged Connects reached the server", got-1)
	}
	t.Logf("%d Connects came, %d reached the server, which took %.1f %% of a processor before and %.1f %% in the flood; "+
		"a new player got in after %v", sent.Load(), connects.Load(), quiet, busy, took.Round(time.Millisecond))
}

// play lets a player send messages for a while. All come back. It returns the percentage of a processor that the server
// took.
func play(t *testing.T, player, server *peer, span time.Duration) float64 {
	t.Helper()
	start, used := time.Now(), processorTime(t, server.pid)
	beat := time.NewTicker(honestPause)
	defer beat.Stop()
	n := 0
	for ; time.Since(start) < span; n++ {
		player.order(t, order{Do: "send", Channel: n % enetChannels, Mode: "reliable", Payload: enetNumbered(2, n)})
		<-beat.C
	}
	for i := range n {
		for _, p := range []*peer{server, player} {
			if got := p.await(t, "received").Payload; got != enetNumbered(2, i) {
				t.Fatalf("%s: message %d is %.20s", p.name, i, got)
			}
		}
	}
	return 100 * (processorTime(t, server.pid) - used).Seconds() / time.Since(start).Seconds()
}

// floodConnects sends Connects from addresses of 127.0.0.0/8 until stop is called.
func floodConnects(t *testing.T, port string, repeats int) (stop func(), sent *atomic.Int64) {
	t.Helper()
	socket, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParseAddrPort("127.0.0.1:" + port)
	protocol := enet.New(enet.Options{Seed: [32]byte{1}})
	done, ended := make(chan struct{}), make(chan struct{})
	sent = new(atomic.Int64)
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		type forged struct {
			connect, oob []byte
		}
		var again []forged // those of the last second, to be repeated
		for n := uint32(0); ; {
			select {
			case <-done:
				return
			case now := <-tick.C:
				for range floodRate / 100 {
					var f forged
					if i := int(n) % repeats; i > 0 && len(again) >= floodRate/2 {
						f, again = again[0], again[1:]
					} else {
						source := [4]byte{127, 1 + byte(n>>16), byte(n >> 8), 1 + byte(n%250)}
						from := netip.AddrPortFrom(netip.AddrFrom4(source), uint16(n))
						f.connect, _ = protocol.Dial(now, from, codec.Hello{}).Transmit(now, nil)
						f.oob = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: source})
					}
					if repeats > 1 {
						again = append(again, f)
					}
					if _, _, err := socket.WriteMsgUDPAddrPort(f.connect, f.oob, to); err == nil {
						sent.Add(1)
					}
					n++
				}
			}
		}
	}()
	stop = func() {
		close(done)
		<-ended
		_ = socket.Close()
	}
	return stop, sent
}

// processorTime is the processor time of a process so far.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, field := range fields[11:13] { // user and system
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
