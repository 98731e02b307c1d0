package relay

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rudp"
)

// docs/security/players.md#killers says how single datagrams harm the real libraries. This file sends each to a proxy
// between every pair of protocols. None of them, and nothing similar, may reach a server or a player.

// killer is one datagram, or several, that ends or blocks a real server or client.
type killer struct {
	what      string
	datagrams [][]byte
	fromZero  bool // from source port 0
}

func killers() []killer {
	oversize := append([]byte{0x03}, make([]byte, 1230)...)
	var garbage [][]byte
	for first := range 256 {
		for n := 1; n <= 20; n += 3 {
			garbage = append(garbage, append([]byte{byte(first)}, make([]byte, n-1)...))
		}
	}
	var short [][]byte
	for n := 1; n < 18; n++ {
		short = append(short, make([]byte, n))
	}
	unhex := func(texts ...string) (all [][]byte) {
		for _, text := range texts {
			b, err := hex.DecodeString(text)
			if err != nil {
				panic(err)
			}
			all = append(all, b)
		}
		return all
	}
	return []killer{
		{what: "an empty datagram", datagrams: [][]byte{{}}},
		{what: "a Connect of Riptide 2.0 over 1,230 bytes", datagrams: [][]byte{oversize}},
		{what: "any datagram over 1,231 bytes", datagrams: [][]byte{make([]byte, 1232), make([]byte, 4096)}},
		{what: "a Connect from port 0", datagrams: unhex("02", "03"), fromZero: true},
		{what: "a RUDP request from port 0", datagrams: [][]byte{rudpRequest()}, fromZero: true},
		{what: "a short datagram of RUDP", datagrams: short},
		{what: "a packet of RUDP with data of length -1",
			datagrams: unhex("000700000000000000000005", "000700000000000000000001ffff")},
		{what: "a Disconnect of Riptide 2.2 without reason", datagrams: unhex("05", "0500", "0501")},
		{what: "a Disconnect of Riptide 2.0", datagrams: unhex("06", "0600")},
		{what: "a Welcome before acceptance", datagrams: unhex("1800100000", "0801000100", "080000", "180000")},
		{what: "user messages before acceptance", datagrams: unhex("000100aa", "070100aa", "0001000102", "09010001aa")},
		{what: "a rejection from a client", datagrams: unhex("03", "0304", "0400", "04ff")},
		{what: "a jump of 32,767 reliable messages", datagrams: unhex("07ff7f0100aa", "09ff7f0100aa")},
		{what: "an acknowledgement of all there is", datagrams: unhex("c0ffff00000000feffff", "c0000100000000ffffff")},
		{what: "garbage with every first byte", datagrams: garbage},
	}
}

func rudpRequest() []byte {
	b, _ := rudp.New(rudp.Options{AppID: 7}).Dial(time.Unix(1_700_000_000, 0), listenerAddr, codec.Hello{}).
		Transmit(time.Unix(1_700_000_000, 0), nil)
	return b
}

// deadly returns why a datagram would kill a real peer of a protocol, or "". It judges datagrams to clients and to
// servers differently.
func deadly(p codec.Protocol, d []byte, toClient bool) string {
	switch name := p.Spec().Name; {
	case len(d) == 0:
		return "empty"
	case name == "riptide-2.0" && len(d) > 1230, name == "riptide-2.2" && len(d) > 1231, len(d) > 4096:
		return "too long"
	case name == "rudp" && len(d) < 16:
		return "too short"
	case name == "riptide-2.2" && toClient && d[0]&0x0f == 5 && (len(d) < 2 || disconnectReason(d) < 2):
		return "a Disconnect that Riptide 2.2 cannot read"
	}
	return ""
}

// disconnectReason returns the byte behind the four bits of a type.
func disconnectReason(d []byte) byte { return d[0]>>4 | d[1]<<4 }

// isOpening reports whether a client may send a datagram before its server has accepted it, by the datagram's Riptide
// type.
func isOpening(p codec.Protocol, d []byte) bool {
	switch p.Spec().Name {
	case "riptide-2.0":
		return d[0] == 1 || d[0] == 2 || d[0] == 3 // acknowledgements and Connect
	case "riptide-2.2":
		return d[0]&0x0f == 1 || d[0]&0x0f == 2
	}
	return true
}

// witness checks all datagrams that the proxy sends.
type witness struct {
	t        *testing.T
	route    string
	clients  codec.Protocol
	upstream codec.Protocol
	welcomed map[netip.AddrPort]bool // sockets to servers that have sent a welcome
	asked    int                     // datagrams that reached the server
}

func (s *witness) saw(from, to netip.AddrPort, d []byte) {
	s.t.Helper()
	switch {
	case from == listenerAddr:
		if why := deadly(s.clients, d, true); why != "" {
			s.t.Errorf("%s: %x to a client: %s", s.route, d, why)
		}
	case to == serverAddr:
		s.asked++
		if why := deadly(s.upstream, d, false); why != "" {
			s.t.Errorf("%s: %x to the server: %s", s.route, d, why)
		}
		if !s.welcomed[from] && !isOpening(s.upstream, d) && !isGoodbye(s.upstream, d) {
			s.t.Errorf("%s: %x to a server that has not accepted", s.route, d)
		}
		if from.Port() == 0 {
			s.t.Errorf("%s: %x from port 0", s.route, d)
		}
	case from == serverAddr && isWelcome(s.upstream, d):
		s.welcomed[to] = true
	}
}

func isGoodbye(p codec.Protocol, d []byte) bool {
	return p.Spec().Name == "riptide-2.0" && d[0] == 6 || p.Spec().Name == "riptide-2.2" && d[0]&0x0f == 5
}

func isWelcome(p codec.Protocol, d []byte) bool {
	switch p.Spec().Name {
	case "riptide-2.0":
		return len(d) > 0 && (d[0] == 8 || d[0] == 9)
	case "riptide-2.2":
		return len(d) > 0 && d[0]&0x0f == 8
	}
	return false
}

// TestKillersReachNobody sends deadly datagrams as a stranger, as a client in its handshake, and from a player's
// address. With no pair of protocols do they go further. The proxy still works afterwards.
func TestKillersReachNobody(t *testing.T) {
	family := udpMembers(noRType)
	for _, clients := range family {
		for _, upstream := range family {
			name := fmt.Sprintf("%s to %s", clients.Spec().Name, upstream.Spec().Name)
			t.Run(name, func(t *testing.T) { killBetween(t, name, clients, upstream) })
		}
	}
}

func killBetween(t *testing.T, name string, clients, upstream codec.Protocol) {
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, clients, matrixRoute(clients, upstream))
	seen := &witness{t: t, route: name, clients: clients, upstream: upstream, welcomed: make(map[netip.AddrPort]bool)}
	w.SetTap(seen.saw)
	p := w.connect(codec.Hello{})
	w.Run(200 * time.Millisecond)
	for i, k := range killers() {
		for j, d := range k.datagrams {
			port := uint16(7000 + i*100 + j%100)
			if k.fromZero {
				port = 0
			}
			w.Inject(0, netip.AddrPortFrom(netip.MustParseAddr("198.51.100.9"), port), listenerAddr, d)
		}
		w.Run(20 * time.Millisecond)
		w.pendingKillers(clients, uint16(i), k)
	}
	w.Run(2 * time.Second)
	for _, k := range killers() {
		if k.what == "a Disconnect of Riptide 2.2 without reason" || k.what == "a Disconnect of Riptide 2.0" ||
			k.what == "garbage with every first byte" {
			continue // Riptide's wire cannot distinguish a forged goodbye from the player's
		}
		for _, d := range k.datagrams {
			w.Inject(0, p.addr, listenerAddr, d)
			w.Inject(0, serverAddr, upstreamSocketAddr(0), bytes.Clone(d))
		}
		w.Run(20 * time.Millisecond)
	}
	w.Run(5 * time.Second)
	w.connect(codec.Hello{})
	if seen.asked == 0 || len(seen.welcomed) == 0 && upstream.Spec().IDs == codec.IDBeside {
		t.Errorf("the witness has seen %d datagrams to the server, and %d welcomes", seen.asked, len(seen.welcomed))
	}
}

// pendingKillers sends a killer from the address of a client whose handshake has begun.
func (w *world) pendingKillers(clients codec.Protocol, i uint16, k killer) {
	source := netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 4000)
	first, _ := clients.Dial(w.Now(), listenerAddr, codec.Hello{}).Transmit(w.Now(), nil)
	w.Inject(0, source, listenerAddr, first)
	w.Run(time.Millisecond)
	for _, d := range k.datagrams {
		w.Inject(0, source, listenerAddr, d)
	}
	w.Run(20 * time.Millisecond)
}
