package nethernet

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"

	wire "tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/testkit/await"
)

// TestPlay joins a full and an ICE-lite server, verifies both identities, and plays: 1,000 ordered messages, large
// ones, and unreliable ones. Neither end sees an address of the other.
func TestPlay(t *testing.T) {
	for name, lite := range map[string]bool{"full": false, "lite": true} {
		t.Run(name, func(t *testing.T) {
			k := newKeys(t)
			g := startGame(t, k, lite)
			e := startEdge(t, g.http, nil)
			p := join(t, k, e.http)
			if g.mu.Lock(); strings.Contains(g.offers[0], "127.0.0.1") || strings.Contains(g.offers[0], "a=candidate") {
				t.Errorf("the server saw %s", g.offers[0])
			}
			g.mu.Unlock()
			target := netip.AddrPort{}
			e.look(func(s *session) { target = s.ticket.Told().Target })
			d, err := wire.ParseDescription([]byte(p.answer))
			if err != nil || len(d.Candidates) != 1 || d.Candidates[0].Address != e.addr() || target == e.addr() {
				t.Errorf("%v, the client saw %+v, the server is at %v", err, d, target)
			}
			p.echo(1000)
			for _, size := range []int{1, 9_999, 10_000, 262_143, 300_000, 2_000_000} {
				large := bytes.Repeat([]byte("tide"), size/4+1)[:size]
				send(t, p.reliable, large)
				if got := p.receive(p.got); !bytes.Equal(got, large) {
					t.Fatalf("%d bytes became %d", size, len(got))
				}
			}
			await.Until(t, "an unreliable message came back", func() bool {
				send(t, p.unreliable, []byte("perhaps"))
				select {
				case m := <-p.gotUnreliable:
					return string(m) == "perhaps"
				case <-time.After(time.Second):
					return false
				}
			})
			if joins := e.tickets.Joins(loopback.Addr()); len(joins) != 1 || joins[0].Stage != joining.Admitted {
				t.Errorf("%+v", joins)
			}
		})
	}
}

// TestThreeInterfaces joins from three addresses, through the edge here and through the real program. The edge takes
// all of them for one client, and the server sees one path, which keeps its port.
func TestThreeInterfaces(t *testing.T) {
	homes := []string{"127.0.0.11", "127.0.0.12", "127.0.0.13"}
	for name, lite := range map[string]bool{"full": false, "lite": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			g := startGame(t, k, lite)
			e := startEdge(t, g.http, nil)
			at, log, _ := startTidegate(t, g.http, "127.0.0.1")
			for _, edge := range []string{e.http, at.String()} {
				p := join(t, k, edge, homes...)
				p.echo(1000)
				pairs := 0
				for _, s := range p.pc.GetStats() {
					if pair, ok := s.(webrtc.ICECandidatePairStats); ok && pair.ResponsesReceived > 0 {
						pairs++
					}
				}
				if pairs != len(homes) {
					t.Errorf("%d of the client's addresses have got answers", pairs)
				}
			}
			e.look(func(s *session) {
				if n := len(s.sources.Append(nil)); n != len(homes) {
					t.Errorf("the edge knows %d addresses", n)
				}
			})
			if n := strings.Count(log.String(), "session established"); n != 1 {
				t.Errorf("%d sessions", n)
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if slices.Contains(g.states, webrtc.PeerConnectionStateDisconnected) {
				t.Errorf("the server's states: %v", g.states)
			}
		})
	}
}

// TestRebinding gives the client another port twice in mid-game. No message is lost, and the server notices nothing.
func TestRebinding(t *testing.T) {
	for name, lite := range map[string]bool{"full": false, "lite": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			g := startGame(t, k, lite)
			var n *nat
			e := startEdge(t, g.http, func(edge netip.AddrPort) netip.AddrPort {
				n = startNAT(t, edge)
				return n.addr()
			})
			p := join(t, k, e.http)
			p.echo(100)
			for moves := 1; moves <= 2; moves++ {
				n.rebind(t)
				p.echo(100) // SCTP repeats what was lost
				e.look(func(s *session) {
					if s.moves < moves {
						t.Errorf("%d moves after %d rebindings", s.moves, moves)
					}
				})
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if last := g.states[len(g.states)-1]; last != webrtc.PeerConnectionStateConnected {
				t.Errorf("the server's states: %v", g.states)
			}
		})
	}
}

// TestThieves send what they have recorded from addresses of their own. They get no answer, and the game goes on.
func TestThieves(t *testing.T) {
	k := newKeys(t)
	g := startGame(t, k, true)
	var n *nat
	e := startEdge(t, g.http, func(edge netip.AddrPort) netip.AddrPort {
		n = startNAT(t, edge)
		return n.addr()
	})
	p := join(t, k, e.http)
	p.echo(10)
	n.mu.Lock()
	recorded := n.recorded
	n.mu.Unlock()
	if len(recorded) < 2 {
		t.Fatalf("%d requests", len(recorded))
	}
	thief, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(e.addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	before, moves := 0, 0
	e.look(func(s *session) { before, moves = e.dropped, s.moves })
	forged := bytes.Clone(recorded[0])
	forged[10] ^= 1 // a new ID: the fingerprint fits, and the integrity does not
	end := len(forged) - 4
	binary.BigEndian.PutUint32(forged[end:], crc32.ChecksumIEEE(forged[:end-4])^0x5354554e)
	record := []byte{22, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0}
	sent := append(recorded, forged, record, []byte("\x05junk"), make([]byte, 20))
	for _, d := range sent {
		if _, err := thief.Write(d); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "all are dropped", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.dropped == before+len(sent)
	})
	p.echo(100)
	e.look(func(s *session) {
		if s.moves != moves || len(s.sources.Append(nil)) != 1 {
			t.Errorf("%d moves, before %d; sources %v", s.moves, moves, s.sources.Append(nil))
		}
	})
	_ = thief.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := thief.Read(make([]byte, 2000)); err == nil {
		t.Errorf("the thief got %d bytes", n)
	}
}

// TestClose ends a game at the client. The edge sees a DTLS alert. (If pion ends the server, often nothing is sent.)
func TestClose(t *testing.T) {
	k := newKeys(t)
	g := startGame(t, k, false)
	e := startEdge(t, g.http, nil)
	p := join(t, k, e.http)
	p.echo(10)
	if err := p.pc.Close(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "an alert came", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.alerts > 0
	})
}
