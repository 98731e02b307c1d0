package flood

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/tools/bench/process"
)

// attack is one kind of flood.
type attack struct {
	name string
	// packets makes the datagrams of the flood. The recording has earlier datagrams of clients.
	packets func(r *recording) []packet
	banned  bool // the sources are in the banned network
	replay  bool // half of the datagrams have a client's source address
}

// packet is a datagram for a listener.
type packet struct {
	listener int
	payload  []byte
}

// attacks lists all kinds of floods.
var attacks = []attack{
	{name: "garbage", packets: garbage},
	{name: "forged handshakes", packets: forgedHandshakes},
	{name: "replayed handshakes", replay: true, packets: func(r *recording) []packet { return r.handshakes }},
	{name: "pings", packets: pings},
	{name: "unknown sessions", packets: func(r *recording) []packet { return r.later }},
	{name: "ban evader", banned: true, packets: forgedHandshakes},
}

// recording has datagrams that clients have sent, as an attacker on the path would see them.
type recording struct {
	counts     map[*conn]int
	handshakes []packet
	later      []packet
}

// Bounds of a recording. A handshake of RakNet begins with two datagrams without a connection, one of Riptide with one.
const (
	handshakePackets = 2   // of each client
	laterPackets     = 40  // of each client that are skipped before later ones are recorded
	recordingLimit   = 600 // of each kind
)

// add records a datagram that a client sends.
func (r *recording) add(c *conn, datagram []byte) {
	if r.counts == nil {
		r.counts = make(map[*conn]int)
	}
	n := r.counts[c]
	r.counts[c]++
	one := packet{c.Value.listener, datagram}
	switch {
	case n < handshakePackets && len(r.handshakes) < recordingLimit:
		one.payload = slices.Clone(datagram)
		r.handshakes = append(r.handshakes, one)
	case n > laterPackets && len(r.later) < recordingLimit:
		one.payload = slices.Clone(datagram)
		r.later = append(r.later, one)
	}
}

// garbage makes random datagrams of 1 to 200 bytes.
func garbage(*recording) (packets []packet) {
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 1024 * listeners {
		b := make([]byte, 1+rand.IntN(200))
		_, _ = noise.Read(b) // it never fails
		packets = append(packets, packet{i % listeners, b})
	}
	return packets
}

// offlineMagic marks RakNet's datagrams that belong to no connection.
var offlineMagic = []byte("\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78")

// forgedHandshakes makes the first datagram of each protocol, and RakNet's second one with invalid cookies.
func forgedHandshakes(*recording) (packets []packet) {
	now := time.Now()
	for i := range 64 {
		for listener, p := range spoken {
			to := netip.AddrPortFrom(process.Loopback, 1)
			conn := p.Dial(now, to, codec.Hello{Identity: rand.Uint64()})
			if b, ok := conn.Transmit(now, make([]byte, 0, codec.MaxDatagram)); ok {
				packets = append(packets, packet{listener, b})
			}
		}
		b := append([]byte{7}, offlineMagic...)
		b = binary.BigEndian.AppendUint32(b, rand.Uint32())
		b = append(b, 0, 4, 128, 255, 255, 254, 0, byte(i))
		b = binary.BigEndian.AppendUint16(b, 1492)
		packets = append(packets, packet{rakNetListener, binary.BigEndian.AppendUint64(b, rand.Uint64())})
	}
	return packets
}

// pings makes RakNet's unconnected ping.
func pings(*recording) []packet {
	b := binary.BigEndian.AppendUint64([]byte{1}, 1)
	b = binary.BigEndian.AppendUint64(append(b, offlineMagic...), 2)
	return []packet{{rakNetListener, b}, {relayListener, b}}
}
