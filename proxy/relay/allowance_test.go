package relay

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rtype"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// The real game sends one player 6,300 instructions a second, which take 287 KB on the wire.
const (
	gameTick     = 10 * time.Millisecond
	gamePerTick  = 63
	gameEntities = 60
)

// streams makes the servers send each player a world of entities. They update it at the real game's rate for a time.
func (w *world) streams(life time.Duration) {
	for _, g := range w.servers {
		g.react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind != codec.Asked {
				return
			}
			p.conn.Admit(now, 1)
			_ = p.conn.Send(now, codec.Message{Payload: append([]byte{0xf0, 0, 0, 0, 1, 4}, "Test\xff\xff"...)})
			for i := range byte(gameEntities) {
				_ = p.conn.Send(now, codec.Message{Payload: []byte{0, 0, 0, 0, i}})
			}
			w.stream(p, now.Add(life), 0)
		}
	}
}

func (w *world) stream(p *peer, until time.Time, n int) {
	for range gamePerTick {
		n++
		m := append([]byte{3, 0, 0, 0, byte(n % gameEntities), 0, 0}, "tick data..."...)
		_ = p.conn.Send(w.Now(), codec.Message{Payload: m})
	}
	if w.Now().Before(until) {
		w.After(gameTick, func() { w.stream(p, until, n) })
	}
}

// count sums the bytes on the wire that the proxy sends, in all and to each address.
func (w *world) count() (told *int, each map[netip.AddrPort]int) {
	told, each = new(int), make(map[netip.AddrPort]int)
	w.SetTap(func(from, to netip.AddrPort, d []byte) {
		if from == listenerAddr {
			*told += admission.WireSize(to, len(d))
			each[to] += admission.WireSize(to, len(d))
		}
	})
	return told, each
}

// TestForgedLifeIsBounded forges addresses of R-Type players and continues their sessions with guessed datagrams. In
// their whole life, these sessions get at most three times the forged bytes plus an allowance. The allowance is
// bounded for each session, for each network and in all. Then the sessions end, and the proxy sends nothing more.
func TestForgedLifeIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and all in one goroutine")
	}
	const kib = 1 << 10
	for _, c := range []struct {
		name   string
		forged int // addresses, of one network
		bounds admission.Unproved
		most   int // bytes a second
	}{
		{"one session", 1, admission.Unproved{Session: 16 * kib, Network: 1 << 30, Overall: 1 << 30}, 16 * kib},
		{"one network", 4, admission.Unproved{Session: 16 * kib, Network: 32 * kib, Overall: 1 << 30}, 32 * kib},
		{"in all", 4, admission.Unproved{Session: 16 * kib, Network: 64 * kib, Overall: 24 * kib}, 24 * kib},
	} {
		for _, dialect := range []rtype.Dialect{rtype.Game16, rtype.Game32, rtype.GameLast} {
			t.Run(c.name+", "+rtype.New(rtype.Options{Dialect: dialect}).Spec().Name, func(t *testing.T) {
				forgedLife(t, dialect, c.forged, c.bounds, c.most)
			})
		}
	}
}

func forgedLife(t *testing.T, dialect rtype.Dialect, forged int, bounds admission.Unproved, most int) {
	const idle, talk = 5 * time.Second, 8 * time.Second
	p := rtype.New(rtype.Options{Dialect: dialect, Seed: [32]byte{1}, IdleTimeout: idle})
	w := newWorldWith(t, 1, simnet.Weather{}, p, matrixRoute(p, p), func(s *Settings) {
		s.Unproved, s.IdleTimeout = bounds, idle
	})
	w.streams(time.Hour)
	told, _ := w.count()
	hello, _ := p.Dial(w.Now(), listenerAddr, codec.Hello{}).Transmit(w.Now(), nil)
	guesses := [][]byte{{0}, {2}, {1, 0, 0}, {1, 1, 1}, {1}, append([]byte{3, 0, 0, 0, 1, 0, 0}, "guess"...),
		[]byte("pong"), hello}
	asked := 0
	forge := func(after time.Duration, victim netip.AddrPort, d []byte) {
		w.After(after, func() { asked += admission.WireSize(victim, len(d)) })
		w.Inject(after, victim, listenerAddr, d)
	}
	for i := range forged {
		victim := netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 5000)
		w.SetPath(listenerAddr, victim, simnet.Weather{Loss: 1})
		forge(0, victim, hello)
		for n := range int(talk / time.Second) {
			forge(time.Duration(n)*time.Second, victim, guesses[n%len(guesses)])
		}
	}
	started := w.Now()
	for w.proxy.relay.table.Len() > 0 || w.Now().Sub(started) < talk {
		w.Run(time.Second)
		if bound := 3*asked + most*int(w.Now().Sub(started)/time.Second+1); *told > bound {
			t.Fatalf("%d bytes sent for %d after %v, want at most %d", *told, asked, w.Now().Sub(started), bound)
		}
		if w.Now().Sub(started) > time.Minute {
			t.Fatal("sessions of silent clients do not end")
		}
	}
	t.Logf("%d bytes sent for %d in %v", *told, asked, w.Now().Sub(started))
	over := *told
	w.Run(10 * time.Second)
	if *told != over {
		t.Errorf("%d bytes sent after the sessions' end", *told-over)
	}
}

// TestEightPlayersPlay asserts that eight silent players of one network get all data of the real game within the
// default limits. After its network's allowance is spent, a player still gets all data once a pressed key has proved
// its address. So does any player of a trusted network.
func TestEightPlayersPlay(t *testing.T) {
	const seconds = 3
	p := rtype.New(rtype.Options{Dialect: rtype.Game32, Seed: [32]byte{1}})
	world := func(bounds admission.Unproved) *world {
		w := newWorldWith(t, 1, simnet.Weather{}, p, matrixRoute(p, p), func(s *Settings) { s.Unproved = bounds })
		w.streams(seconds * time.Second)
		return w
	}
	defaults := admission.Unproved{Session: 512 << 10, Network: 4 << 20, Overall: 32 << 20}
	w := world(defaults)
	for range 8 {
		w.join(codec.Hello{})
	}
	w.Run(seconds * time.Second)
	if n := w.drops(stats.DropUnproved); n != 0 {
		t.Errorf("%d datagrams to eight silent players dropped", n)
	}

	tight := admission.Unproved{Session: 8 << 10, Network: 64 << 10, Overall: 64 << 10}
	w = world(tight)
	silent, speaks := w.join(codec.Hello{}), w.join(codec.Hello{})
	w.Run(time.Second)
	var known []byte // an entity, with the ID that this player knows
	for _, m := range speaks.received() {
		if m.Payload[0] == 0 {
			known = m.Payload[1:5]
		}
	}
	if known == nil || binary.BigEndian.Uint32(known) < gameEntities {
		t.Fatalf("entity %x: want a masked one", known)
	}
	w.send(&speaks.peer, codec.Message{Payload: append(append([]byte{3}, known...), 0, 0, 1)})
	w.Run(100 * time.Millisecond)
	_, each := w.count()
	w.Run(time.Second)
	if each[silent.addr] > 8<<10 || each[speaks.addr] < 280_000 {
		t.Errorf("a silent player is sent %d bytes a second, one with proof %d", each[silent.addr], each[speaks.addr])
	}

	tight.Trusted = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}
	w = world(tight)
	w.join(codec.Hello{})
	w.Run(seconds * time.Second)
	if n := w.drops(stats.DropUnproved); n != 0 {
		t.Errorf("%d datagrams to a player of a trusted network dropped", n)
	}
}

// TestLastGameProvesItself asserts that clients of the last game prove their address by their answers about two
// unknown components. Then no allowance bounds them.
func TestLastGameProvesItself(t *testing.T) {
	p := rtype.New(rtype.Options{Dialect: rtype.GameLast, Seed: [32]byte{1}})
	w := newWorldWith(t, 1, simnet.Weather{}, p, matrixRoute(p, p), func(s *Settings) {
		s.Unproved = admission.Unproved{Session: 4 << 10, Network: 4 << 10, Overall: 4 << 10}
	})
	w.streams(5 * time.Second)
	c := w.connect(codec.Hello{})
	w.Run(time.Second)
	_, each := w.count()
	w.Run(time.Second)
	if n := w.drops(stats.DropUnproved); n != 0 || each[c.addr] < 280_000 {
		t.Errorf("%d datagrams dropped, %d bytes in a second", n, each[c.addr])
	}
}

// TestSilentPlayersStay asserts that an R-Type player that presses no key gets no ping and stays. Other protocols'
// players may not be silent for so long. The player is told when the session ends.
func TestSilentPlayersStay(t *testing.T) {
	p := rtype.New(rtype.Options{Dialect: rtype.Game32})
	w := newWorld(t, 1, simnet.Weather{}, p, matrixRoute(p, p))
	for _, g := range w.servers {
		g.react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind == codec.Asked {
				p.conn.Admit(now, 1)
				_ = p.conn.Send(now, codec.Message{Payload: append([]byte{0xf0, 0, 0, 0, 1, 4}, "Test\xff\xff"...)})
				w.tick(p)
			}
		}
	}
	c := w.join(codec.Hello{})
	var said []string
	w.SetTap(func(from, to netip.AddrPort, d []byte) {
		if from == listenerAddr && to == c.addr && len(d) > 8 {
			said = append(said, string(d))
		}
	})
	w.Run(10*time.Minute - time.Second)
	if c.gone() || len(said) > 0 {
		t.Fatalf("the session ended or the player was told %q", said)
	}
	w.Run(5 * time.Second)
	if !c.gone() || c.find(codec.Disconnected).Reason != codec.Kicked {
		t.Errorf("events %v, want the goodbye", c.events[len(c.events)-1])
	}
}

// tick sends a player the next frame each second.
func (w *world) tick(p *peer) {
	_ = p.conn.Send(w.Now(), codec.Message{Payload: []byte{0x0a}})
	w.After(time.Second, func() { w.tick(p) })
}
