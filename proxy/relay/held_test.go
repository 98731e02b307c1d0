package relay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
	"tidegate/internal/source"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// missing marks a message that never arrives.
var missing = []byte("never arrives")

// hoarder is a player whose datagrams with a mark are lost. So its other messages stay unfinished, or wait.
type hoarder struct{ *player }

func (h hoarder) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	for {
		d, from, to, ok := h.player.Transmit(now, b)
		if !ok || !bytes.Contains(d, missing) {
			return d, from, to, ok
		}
	}
}

// hoards are the ways in which a client makes the proxy hold memory after it has joined.
var hoards = map[string]func(send func(payload []byte)){
	"unfinished messages": func(send func([]byte)) {
		large := bytes.Repeat([]byte{0x86}, 300<<10)
		copy(large[200<<10:], missing)
		send(large)
	},
	"early messages": func(send func([]byte)) {
		send(append([]byte{0x86}, missing...))
		for range 100 {
			send(bytes.Repeat([]byte{0x86}, 1000))
		}
	},
	"early messages of many parts": func(send func([]byte)) {
		send(append([]byte{0x86}, missing...))
		for range 3 {
			send(bytes.Repeat([]byte{0x86}, 50<<10))
		}
	},
}

// hoardWorld is a world of players and hoarders with several protocols, before a RakNet server.
type hoardWorld struct {
	*world
	honest []*player
	hoards []*player
	sent   int
	most   int // bytes held at any time
}

func newHoardWorld(t *testing.T, bounds admission.HeldBounds) *hoardWorld {
	w := &hoardWorld{world: newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(),
		defaultRoute(raknet6()), func(s *Settings) {
			s.Held = bounds
			s.Limits = session.Limits{Sessions: 200, HalfOpen: 200}
			s.Listeners[0].Protocols = []codec.Protocol{raknet6(), enet.New(enet.Options{}), riptide22()}
			s.Listeners[0].Route.Bridge.AllowLossy = true
		})}
	w.watch()
	return w
}

// watch looks at the account all the time.
func (w *hoardWorld) watch() {
	w.most = max(w.most, w.proxy.relay.held.Figures().Overall)
	checkHoldings(w.t, w.proxy.relay)
	w.After(10*time.Millisecond, w.watch)
}

// hoard joins hoarders of one address, in two protocols, and has them hoard in every way.
func (w *hoardWorld) hoard(host byte, each int) {
	for i := range each {
		for k, protocol := range []codec.Protocol{raknet6(), enet.New(enet.Options{})} {
			p := &player{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, host}), uint16(1000+2*i+k))}
			p.conn = protocol.Dial(w.Now(), listenerAddr, codec.Hello{Data: bytes.Repeat([]byte{7}, 900)})
			w.Add(hoarder{p}, p.addr)
			w.hoards = append(w.hoards, p)
			w.await("connected", 20*time.Second, func() bool { return p.find(codec.Connected) != nil || p.gone() })
			for _, act := range hoards {
				act(func(payload []byte) {
					_ = p.conn.Send(w.Now(), codec.Message{Payload: payload, Mode: codec.ReliableOrdered})
				})
			}
		}
	}
}

// play has each honest player send a small message, and a large one now and then.
func (w *hoardWorld) play(rounds int) {
	for range rounds {
		for i, p := range w.honest {
			m := bytes.Repeat([]byte{0x86}, 40)
			if (w.sent+i)%7 == 0 {
				m = bytes.Repeat([]byte{0x86}, 60<<10)
			}
			binary.LittleEndian.PutUint32(m[1:], uint32(w.sent))
			w.send(&p.peer, codec.Message{Payload: m, Mode: codec.ReliableOrdered})
		}
		w.sent++
		w.Run(50 * time.Millisecond)
	}
}

// checkHonest checks that all messages of honest players have arrived, and that their sessions go on.
func (w *hoardWorld) checkHonest() {
	w.t.Helper()
	for i, p := range w.honest {
		server := w.servers[0].peers[i]
		if n := len(server.received()); p.gone() || n != w.sent {
			w.t.Errorf("honest player %d: gone %v, %d messages of %d arrived", i, p.gone(), n, w.sent)
		}
	}
}

// checkHoldings counts the held memory of all sessions again, and compares it with the account.
func checkHoldings(t testing.TB, r *Relay) {
	t.Helper()
	const leastHolding = 2 << 10 // sessions with less do not count at their address
	total, addresses := 0, make(map[netip.Prefix]bool)
	for e := range r.table.All {
		if e.Value.isRelayed() {
			continue
		}
		bytes := e.Value.holding.Bytes()
		if total += bytes; bytes >= leastHolding {
			addresses[source.Of(e.Key.Client.Addr()).Address()] = true
		}
	}
	if n := r.held.Figures().Overall; total != n || len(addresses) != r.held.Addresses() {
		t.Errorf("%d bytes of %d addresses are held; the account has %d of %d", total, len(addresses), n,
			r.held.Addresses())
	}
}

// TestHeldBytesAreBounded has hoarders of one address, and of many, hold memory of every kind before three players of
// other addresses. The account never exceeds its bound, hoarders end, and honest players notice nothing.
func TestHeldBytesAreBounded(t *testing.T) {
	const session, address, overall = 600 << 10, 1 << 20, 2 << 20
	bounds := admission.HeldBounds{Session: session, Address: address, Overall: overall}
	for _, test := range []struct {
		name      string
		addresses int
		each      int
		bounds    admission.HeldBounds
		most      int
	}{
		{"one session", 1, 1, admission.HeldBounds{Session: 200 << 10}, 200 << 10},
		{"one address", 1, 10, bounds, address},
		{"many addresses", 10, 2, bounds, overall},
		{"many addresses with one session", 20, 1, bounds, overall},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newHoardWorld(t, test.bounds)
			for range 3 {
				w.honest = append(w.honest, w.connect(codec.Hello{Data: []byte("password")}))
			}
			for i := range test.addresses {
				w.hoard(byte(1+i), test.each)
				w.play(2)
			}
			w.play(20)
			w.Run(2 * time.Second)
			w.checkHonest()
			slack := (len(w.honest)*60 + len(w.hoards)) << 10 // of messages under way, and of handshakes
			if ended := w.drops(stats.DropHeldBytes); w.most > test.most+slack || w.most < test.most/2 || ended == 0 {
				t.Errorf("%d bytes were held, want at most %d; %d sessions ended", w.most, test.most, ended)
			}
			for _, p := range append(w.hoards, w.honest...) {
				p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
			}
			w.Run(30 * time.Second)
			if h := &w.proxy.relay.held; h.Figures().Overall != 0 || h.Addresses() != 0 {
				t.Errorf("%d bytes are held after all have left", h.Figures().Overall)
			}
		})
	}
}

// TestHoldersOfConnectData has forged clients ask for sessions with long connect data. It is counted, and no holder.
func TestHoldersOfConnectData(t *testing.T) {
	w := newHoardWorld(t, admission.HeldBounds{Session: 64 << 10, Address: 64 << 10, Overall: 64 << 10})
	datagram := append([]byte{2}, bytes.Repeat([]byte{9}, 1000)...)
	for i := range 40 {
		w.Inject(0, strangerAddr(i), listenerAddr, datagram)
	}
	w.Run(100 * time.Millisecond)
	if h := &w.proxy.relay.held; h.Figures().Overall < 40*1000 || h.Addresses() != 0 {
		t.Errorf("%d bytes of 40 clients are counted, with %d holders", h.Figures().Overall, h.Addresses())
	}
	w.Run(time.Minute)
	if n := w.proxy.relay.held.Figures().Overall; n != 0 {
		t.Errorf("%d bytes are held after the handshakes' time", n)
	}
}
