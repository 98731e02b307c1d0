//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// attackTime says how long each attack takes: TIDEGATE_ATTACK, for example 10m, or a few seconds.
func attackTime(t *testing.T) time.Duration {
	text := os.Getenv("TIDEGATE_ATTACK")
	if text == "" {
		return 8 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// siege is a proxy under attack, with honest players of real libraries.
type siege struct {
	t       *testing.T
	between *proxy
	server  *peer
	stop    atomic.Bool
	attacks sync.WaitGroup
	sent    atomic.Int64 // datagrams of the attackers
	failed  int          // attempts to join
}

// besieged lists the players: the library in C of ENet, RakNet's in Go, and Riptide's in Python.
var besieged = []contender{goClient, pytideClients[0], libenetContender}

// lull is how many messages an honest player of Riptide sends before it joins again: pytide ends after 14 single ones.
const lull = 10

// underAttack plays honest players while an attack runs. Each message must come back, and a last player must get in.
func underAttack(t *testing.T, limits string, attack func(s *siege, rng *rand.Rand)) {
	s := &siege{t: t, server: startGoServer(t)}
	go func() {
		for range s.server.events { // the players look at their echoes
		}
	}()
	s.between = startTidegate(t, route{protocol: "bedrock", transport: udp, server: s.server.port, limits: limits})
	go func() {
		for range s.between.journal { // nothing here waits for the log
		}
	}()
	before := s.memory()
	players := make([]*peer, len(besieged))
	for i, c := range besieged {
		players[i] = s.join(c)
	}
	for i := range 2 {
		s.attacks.Go(func() { attack(s, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))) })
	}
	end := time.Now().Add(attackTime(t))
	rounds := 0
	for ; time.Now().Before(end); rounds++ {
		for i, c := range besieged {
			if rounds%lull == lull-1 && c.language.ids {
				players[i].order(t, order{Do: "leave"})
				players[i].await(t, "disconnected")
				_ = players[i].kill() // it has said goodbye
				players[i] = s.join(c)
			}
			s.echo(players[i], c, rounds)
		}
	}
	s.echo(s.join(goClient), goClient, rounds)
	s.stop.Store(true)
	s.attacks.Wait()
	after := s.memory()
	t.Logf("%d messages came back; %d attempts to join failed; %d hostile datagrams; %d MiB before, %d MiB after",
		rounds*len(players), s.failed, s.sent.Load(), before>>20, after>>20)
	if after > before+128<<20 {
		t.Errorf("the proxy has grown from %d to %d MiB", before>>20, after>>20)
	}
}

func (s *siege) port() string { return s.between.ports[udp] }

// join has a player join. A forger may end an attempt: docs/security.md says so. Then the player tries again.
func (s *siege) join(c contender) *peer {
	s.t.Helper()
	for range 10 {
		p := c.client(s.t, s.port())
		select {
		case e := <-p.events:
			if e.Event == "connected" {
				return p
			}
			s.failed++
		case <-time.After(3 * patience):
			s.t.Fatalf("%s: neither connected nor refused", p.name)
		}
		if p.kill != nil {
			_ = p.kill() // it has been refused
		}
	}
	s.t.Fatalf("%s was refused 10 times", c.name)
	return nil
}

// echo sends a message, and waits until it comes back. An attacker may have added others.
func (s *siege) echo(p *peer, c contender, i int) {
	s.t.Helper()
	o := c.language.message(i%messages, true)
	p.order(s.t, o)
	for deadline := time.Now().Add(patience); ; {
		if e := p.await(s.t, "received"); c.language.matches(o, e) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: message %d did not come back", p.name, i)
		}
	}
	time.Sleep(60 * time.Millisecond)
}

// memory returns the resident bytes of the proxy.
func (s *siege) memory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.between.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("the proxy is gone: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	return kib << 10
}

// pause keeps an attacker at about a thousand datagrams a second.
func (s *siege) pause() {
	s.sent.Add(1)
	time.Sleep(time.Millisecond)
}

// TestForger sends forged datagrams in the names of all players to the proxy, and in the server's name to all sockets
// of the proxy. It sees no traffic.
func TestForger(t *testing.T) {
	raw, err := newRawSocket()
	if err != nil {
		t.Skipf("forged addresses need root: %v", err)
	}
	underAttack(t, "", func(s *siege, rng *rand.Rand) {
		port, _ := strconv.Atoi(s.port())
		door := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
		server, _ := strconv.Atoi(s.server.port)
		from := netip.AddrPortFrom(door.Addr(), uint16(server))
		for !s.stop.Load() {
			players, sockets := udpPeers(door.Port()), udpPeers(from.Port())
			for range 100 {
				for _, p := range players {
					raw.send(p, door, forgedDatagram(rng))
					s.pause()
				}
				for _, to := range sockets {
					raw.send(from, to, forgedDatagram(rng))
					s.pause()
				}
			}
		}
	})
}

// TestInsider joins in each protocol, and sends everything that a server might not expect. It joins again when it is
// sent away.
func TestInsider(t *testing.T) {
	underAttack(t, "", func(s *siege, rng *rand.Rand) {
		for n := 0; !s.stop.Load(); n++ {
			a, err := newAttacker(rng, fmt.Sprintf("127.1.%d.%d", n%200, 1+rng.IntN(200)), s.port())
			if err != nil {
				continue
			}
			switch n % 3 {
			case 0:
				if a.joinRakNet(4) {
					a.misbehave(s)
				}
			case 1:
				if a.joinRiptide() {
					a.misbehave(s)
				}
			case 2:
				if head, ok := a.joinENet(); ok {
					a.misbehaveENet(s, head)
				}
			}
			_ = a.conn.Close()
		}
	})
}

// misbehave sends hostile datagrams of RakNet and Riptide for about two seconds, with numbers that continue.
func (a *attacker) misbehave(s *siege) {
	for range 1500 {
		if s.stop.Load() {
			return
		}
		switch a.rng.IntN(4) {
		case 0:
			first := []byte{0xfe, 0x00, 0x15, 0x09, 0x13, 0x04, 0x10}[a.rng.IntN(7)]
			a.sendOrdered(append([]byte{first}, make([]byte, a.rng.IntN(40))...))
		case 1: // the first part of a large message
			b := append(append24([]byte{0x84}, a.datagram), 0x70, 0x20, 0)
			b = append(append24(append24(b, a.reliable), a.order), byte(a.rng.IntN(32)))
			b = binary.BigEndian.AppendUint32(b, uint32(2+a.rng.IntN(5000)))
			b = binary.BigEndian.AppendUint16(b, uint16(a.rng.Uint32()))
			a.send(append(binary.BigEndian.AppendUint32(b, 0), make([]byte, 1024)...))
			a.datagram, a.reliable = a.datagram+1, a.reliable+1
		default:
			a.send(forgedDatagram(a.rng))
		}
		s.pause()
	}
}

// misbehaveENet sends commands of ENet with correct IDs and any content.
func (a *attacker) misbehaveENet(s *siege, head []byte) {
	for range 1500 {
		if s.stop.Load() {
			return
		}
		b := append([]byte(nil), head...)
		binary.BigEndian.PutUint16(b[2:], uint16(a.rng.Uint32()))
		for range 1 + a.rng.IntN(6) {
			kind := byte(1 + a.rng.IntN(13))
			b = append(b, kind|0x80, []byte{0, 1, 0xff, byte(a.rng.Uint32())}[a.rng.IntN(4)], 0, byte(guess(a.rng, 8)))
			b = append(b, make([]byte, 2*a.rng.IntN(13))...)
			if a.rng.IntN(2) == 0 {
				b[len(b)-1] = byte(a.rng.Uint32())
			}
		}
		a.send(b)
		s.pause()
	}
}

// TestHoarder holds as much as it can: half-open handshakes, silent sessions, unfinished messages, and connections
// that say nothing, each from many addresses.
func TestHoarder(t *testing.T) {
	underAttack(t, "", func(s *siege, rng *rand.Rand) {
		var held []net.Conn
		defer func() {
			for _, c := range held {
				_ = c.Close()
			}
		}()
		const most = 300 // descriptors of an attacker
		for n := 0; !s.stop.Load(); n++ {
			if len(held) >= most {
				_ = held[0].Close()
				held = held[1:]
			}
			from := fmt.Sprintf("127.%d.%d.%d", 2+rng.IntN(100), rng.IntN(200), 1+rng.IntN(200))
			if n%5 == 4 {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Second}
				if c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", s.between.ports[tcp])); err == nil {
					_, _ = c.Write([]byte{200, 0, 0, 0, 2}[:rng.IntN(6)])
					held = append(held, c)
				}
				continue
			}
			a, err := newAttacker(rng, from, s.port())
			if err != nil {
				continue
			}
			held = append(held, a.conn)
			a.hoard(s, n%5)
		}
	})
}

// hoard opens a session, or half of one, and leaves unfinished messages behind.
func (a *attacker) hoard(s *siege, how int) {
	switch how {
	case 0:
		a.joinRakNet(1 + a.rng.IntN(3))
	case 1:
		if a.joinRakNet(4) {
			for id := range uint16(40) { // all parts but one
				for part := range uint32(3) {
					b := append(append24([]byte{0x84}, a.datagram), 0x70, 0x27, 0x10)
					b = append(append24(append24(b, a.reliable), a.order), byte(id%32))
					b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(b, 400), id)
					a.send(append(binary.BigEndian.AppendUint32(b, part), make([]byte, 1250)...))
					a.datagram, a.reliable = a.datagram+1, a.reliable+1
					s.pause()
				}
			}
		}
	case 2:
		a.joinRiptide()
	case 3:
		a.joinENet()
	}
	s.pause()
}
