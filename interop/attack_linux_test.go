//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testkit/rtypegame"
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
	beat    *time.Ticker // of the honest players
	peak    usage        // of the proxy
}

// usage is what a process has of its machine.
type usage struct{ memory, descriptors int }

// besieged lists the players: the library in C of ENet, RakNet's in Go, and Riptide's in Python.
var besieged = []contender{goClient, pytideClients[0], libenetContender}

const (
	// lull is how many messages an honest player of Riptide sends before it joins again: pytide ends after 14 single ones.
	lull       = 10
	honestBeat = 60 * time.Millisecond // between two messages of honest players
)

// underAttack plays honest players while an attack runs. Each message must come back, and a last player must get in.
func underAttack(t *testing.T, limits string, attack func(h *hostile)) {
	t.Helper()
	underAttackOf(t, limits, 1000, attack)
}

// underAttackOf is underAttack by attackers who send so many datagrams a second.
func underAttackOf(t *testing.T, limits string, rate float64, attack func(h *hostile)) {
	s := &siege{t: t, server: startGoServer(t), beat: time.NewTicker(honestBeat)}
	defer s.beat.Stop()
	go func() {
		for range s.server.events { // the players look at their echoes
		}
	}()
	game := newRTypeServer(t, rtypegame.Late)
	to := route{protocol: "bedrock", transport: udp, server: s.server.port, limits: limits}
	s.between = runTidegate(t, moreListeners(t, to, game.socket.LocalAddr().String()), 4)
	go func() {
		for range s.between.journal { // nothing here waits for the log
		}
	}()
	before := s.usage()
	stop := make(chan struct{})
	packets := playRUDP(t, s.between.ports["packets"], stop)
	world := &worldPlayer{server: game}
	world.tend(t, s.between.ports["world"], stop)
	players := make([]*peer, len(besieged))
	for i, c := range besieged {
		players[i] = s.join(c)
	}
	for i := range 2 {
		s.attacks.Go(func() {
			h := newHostile(s, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i))))
			h.rest = time.Duration(float64(time.Second) / rate)
			defer h.ticks.Stop()
			attack(h)
		})
	}
	rounds := s.play(players)
	s.echo(s.join(goClient), goClient, rounds)
	world.check(t)
	s.stop.Store(true)
	s.attacks.Wait()
	close(stop)
	world.wait.Wait()
	s.report(before, rounds*len(players), <-packets)
}

// play has the honest players send until the time is over, and returns how many rounds that were.
func (s *siege) play(players []*peer) (rounds int) {
	for end := time.Now().Add(attackTime(s.t)); time.Now().Before(end); rounds++ {
		for i, c := range besieged {
			if rounds%lull == lull-1 && c.language.ids {
				players[i].order(s.t, order{Do: "leave"})
				players[i].await(s.t, "disconnected")
				_ = players[i].kill() // it has said goodbye
				players[i] = s.join(c)
			}
			s.echo(players[i], c, rounds)
		}
		s.usage()
	}
	return rounds
}

func (s *siege) report(before usage, echoes int, p *echoPlayer) {
	after := s.usage()
	s.t.Logf("%d messages came back; %d attempts to join failed; %d hostile datagrams", echoes, s.failed, s.sent.Load())
	s.t.Logf("RUDP: %d messages came back, %d were lost, %d sessions ended", p.echoed, p.lost, p.ended)
	s.t.Logf("memory: %d MiB before, at most %d, %d after; descriptors: %d, %d, %d", before.memory>>20, s.peak.memory>>20,
		after.memory>>20, before.descriptors, s.peak.descriptors, after.descriptors)
	if s.peak.memory > before.memory+128<<20 {
		s.t.Errorf("the proxy has grown from %d to %d MiB", before.memory>>20, s.peak.memory>>20)
	}
	if p.echoed < int(attackTime(s.t)/echoPause)/2 || p.lost > 5+p.echoed/100 {
		s.t.Errorf("RUDP: %d messages came back, %d were lost", p.echoed, p.lost)
	}
}

func (s *siege) port() string { return s.between.ports[udp] }

// join has a player join. A forger may end an attempt: docs/security/forgers.md says so. Then the player tries again.
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
	o := c.language.message(i%messages, !c.language.unreliable || i%3 != 0)
	p.order(s.t, o)
	for deadline := time.Now().Add(patience); ; {
		if e := p.await(s.t, "received"); c.language.matches(o, e) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: message %d did not come back", p.name, i)
		}
	}
	<-s.beat.C
}

// usage returns what the proxy has now, and notes the most.
func (s *siege) usage() usage {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.between.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("the proxy is gone: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	u := usage{memory: kib << 10, descriptors: s.between.descriptors(s.t)}
	s.peak = usage{memory: max(s.peak.memory, u.memory), descriptors: max(s.peak.descriptors, u.descriptors)}
	return u
}

const (
	hostilePause = time.Millisecond       // between two datagrams of a fast attacker
	hostileDebt  = 100 * time.Millisecond // of pauses that an attacker makes up for after the machine was busy
)

// hostile is an attacker.
type hostile struct {
	*siege
	rng   *rand.Rand
	ticks *time.Ticker
	rest  time.Duration // between two datagrams
	due   time.Time     // of the next datagram
}

func newHostile(s *siege, rng *rand.Rand) *hostile {
	return &hostile{siege: s, rng: rng, ticks: time.NewTicker(hostilePause), rest: hostilePause, due: time.Now()}
}

// pause counts a datagram, and waits until the next one is due.
func (h *hostile) pause() {
	h.sent.Add(1)
	now := time.Now()
	if late := now.Add(-hostileDebt); h.due.Before(late) {
		h.due = late
	}
	for h.due = h.due.Add(h.rest); h.due.After(now) && !h.stop.Load(); now = time.Now() {
		<-h.ticks.C
	}
}

// TestInsider joins in each protocol, and sends everything that a server might not expect. It joins again when it is
// sent away.
func TestInsider(t *testing.T) {
	underAttack(t, "", func(h *hostile) { h.intrude("") })
}

func (h *hostile) intrude(string) {
	for n := 0; !h.stop.Load(); n++ {
		kind := n % len(insiders)
		from := fmt.Sprintf("127.1.%d.%d", n%200, 1+h.rng.IntN(200))
		a, err := newAttacker(h.rng, from, h.between.ports[insiders[kind].route])
		if err != nil {
			continue
		}
		insiders[kind].act(a, h)
		_ = a.conn.Close()
	}
}

// insiders are the attackers of each protocol, with the route of their listener.
var insiders = []struct {
	route string
	act   func(a *attacker, h *hostile)
}{
	{udp, func(a *attacker, h *hostile) {
		if a.joinRakNet(4) {
			a.misbehave(h)
		}
	}},
	{udp, func(a *attacker, h *hostile) {
		if a.joinRiptide() {
			a.misbehave(h)
		}
	}},
	{udp, func(a *attacker, h *hostile) {
		if head, ok := a.joinENet(); ok {
			a.misbehaveENet(h, head)
		}
	}},
	{"packets", func(a *attacker, h *hostile) {
		a.joinRiptide20()
		a.misbehave(h)
	}},
	{"packets", func(a *attacker, h *hostile) {
		if a.joinRUDP() {
			a.misbehaveRUDP(h)
		}
	}},
	{"world", func(a *attacker, h *hostile) {
		if a.joinRType() {
			a.misbehaveRType(h)
		}
	}},
}

// misbehave sends hostile datagrams of RakNet and Riptide for about two seconds, with numbers that continue.
func (a *attacker) misbehave(s *hostile) {
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
func (a *attacker) misbehaveENet(s *hostile, head []byte) {
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
	underAttack(t, "", func(h *hostile) {
		var held []net.Conn
		defer func() {
			for _, c := range held {
				_ = c.Close()
			}
		}()
		const most = 300 // descriptors of an attacker
		for n := 0; !h.stop.Load(); n++ {
			if len(held) >= most {
				_ = held[0].Close()
				held = held[1:]
			}
			from := fmt.Sprintf("127.%d.%d.%d", 2+h.rng.IntN(100), h.rng.IntN(200), 1+h.rng.IntN(200))
			if n%(hoardKinds+1) == hoardKinds {
				if c := hoardStream(h, from); c != nil {
					held = append(held, c)
				}
				h.pause()
				continue
			}
			route := [hoardKinds]string{udp, udp, udp, udp, "packets", "world"}[n%(hoardKinds+1)]
			a, err := newAttacker(h.rng, from, h.between.ports[route])
			if err != nil {
				continue
			}
			held = append(held, a.conn)
			a.hoard(h, n%(hoardKinds+1))
		}
	})
}

const hoardKinds = 6 // of attacker.hoard

// hoard opens a session, or half of one, and leaves unfinished messages behind.
func (a *attacker) hoard(h *hostile, how int) {
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
					h.pause()
				}
			}
		}
	case 2:
		a.joinRiptide()
	case 3:
		a.joinENet()
	case 4:
		if a.rng.IntN(2) == 0 {
			a.joinRUDP()
		} else {
			a.send(rudpDatagram(0, 0, 0, 0)) // a request, and no more
		}
	case 5:
		if a.joinRType() && a.rng.IntN(2) == 0 {
			a.send([]byte{9})
		}
	}
	h.pause()
}

// hoardStream opens a TCP connection. It stays silent, ends in the middle of a frame, or joins and reads nothing.
func hoardStream(h *hostile, from string) net.Conn {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Second}
	c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", h.between.ports[tcp]))
	if err != nil {
		return nil
	}
	switch h.rng.IntN(3) {
	case 0:
		_, _ = c.Write([]byte{200, 0, 0, 0, 2}[:h.rng.IntN(6)])
	case 1:
		_, _ = c.Write([]byte{1, 0, 0, 0, 2}) // a whole Connect
	}
	return c
}
