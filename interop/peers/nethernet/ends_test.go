//go:build interop

package nethernet

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// TestEdgeEnds ends games at the edge in each way: goodbyes of pion and of libdatachannel, a killed client, a killed
// server, and a client that joins over HTTP and never comes. Every session and every join ends in time.
func TestEdgeEnds(t *testing.T) {
	for _, c := range []struct {
		name, said string
		end        func(t *testing.T, k keys, at netip.AddrPort)
	}{
		{"pion closes", "session ended", func(t *testing.T, k keys, at netip.AddrPort) {
			p := join(t, k, at.String())
			p.echo(10)
			if err := p.pc.Close(); err != nil {
				t.Fatal(err)
			}
		}},
		{"libdatachannel closes", "session ended", func(t *testing.T, _ keys, at netip.AddrPort) {
			p := startOther(t, at)
			if _, err := fmt.Fprintln(p.in, "close"); err != nil {
				t.Fatal(err)
			}
		}},
		{"libdatachannel is killed", "session ended", func(t *testing.T, _ keys, at netip.AddrPort) {
			if err := startOther(t, at).kill(); err != nil {
				t.Fatal(err)
			}
		}},
		{"a client that never comes", "join failed", func(t *testing.T, k keys, at netip.AddrPort) {
			p := newPion(t, false)
			if _, err := p.CreateDataChannel(reliableLabel, nil); err != nil {
				t.Fatal(err)
			}
			offer, err := p.CreateOffer(nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := describe(p, offer, k.client)
			if err != nil {
				t.Fatal(err)
			}
			post(t, at.String(), text)
			_ = p.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			if strings.Contains(c.name, "libdatachannel") {
				k.client = nil // it makes its own
			}
			at, log, _ := startTidegate(t, startGame(t, k, true).http, loopback.Addr().String())
			c.end(t, k, at)
			awaitWithin(t, log, c.said)
		})
	}
	t.Run("a killed server", func(t *testing.T) {
		t.Parallel()
		server, kill := startServerProcess(t)
		at, log, _ := startTidegate(t, server, loopback.Addr().String())
		p := startOther(t, at)
		kill()
		awaitWithin(t, log, "session ended")
		_ = p.kill()
	})
}

// startOther returns a player of libdatachannel in mid-game.
func startOther(t *testing.T, at netip.AddrPort) *process {
	t.Helper()
	p := otherStacks[1].start(t, "http://"+at.String())
	p.order("", "open")
	p.order("echo 10", "echoed")
	return p
}

// awaitWithin waits for what follows 30 s of silence, with time for a machine that does much else.
func awaitWithin(t *testing.T, log *output, said string) {
	t.Helper()
	const within = time.Minute
	began := time.Now()
	await.Until(t, said, func() bool { return strings.Contains(log.String(), said) })
	took := time.Since(began)
	if t.Logf("%q after %v", said, took); took > within {
		t.Errorf("%q came after %v, want %v", said, took, within)
	}
}

// TestBothKindsOnOnePort plays with 100 clients of go-raknet and 100 of pion at once, on one UDP port of a bridge to
// go-raknet. The server list is asked meanwhile.
func TestBothKindsOnOnePort(t *testing.T) {
	t.Parallel()
	const each = 100
	at, log, _ := startBridge(t, rakserver.Start(t, rakserver.Echo), `identity = "none"
[listener.raknet]
pong = "both kinds"
[limits]
sessions_per_address = 300`)
	k := newKeys(t)
	k.server = nil // Tidegate makes its own
	var all sync.WaitGroup
	begin := make(chan struct{})
	var conns []*raknet.Conn
	var players []*player
	for range each {
		conn, _ := dialRakNet(t, at)
		conns, players = append(conns, conn), append(players, join(t, k, at.String()))
	}
	for i := range each {
		for _, play := range []func(){
			func() { echoRakNet(t, conns[i], 50) },
			func() { players[i].echo(50) },
		} {
			all.Go(func() {
				<-begin
				play()
			})
		}
	}
	close(begin)
	for range 5 { // a loop that is behind drops most pings, and a server list asks again each second
		await.Nil(t, func() error {
			pong, err := raknet.PingTimeout(at.String(), time.Second)
			if err == nil && string(pong) != "both kinds" {
				err = fmt.Errorf("listed as %q", pong)
			}
			return err
		})
	}
	all.Wait()
	if n := strings.Count(log.String(), "session ended"); n != 0 {
		t.Errorf("%d sessions have ended", n)
	}
}
