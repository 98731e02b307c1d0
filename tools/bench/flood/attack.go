package flood

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/tools/bench/edge"
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
	{name: "unknown names", packets: unknownNames},
	{name: "wrong passwords", packets: wrongPasswords},
	{name: "DTLS", packets: dtlsRecords},
	{name: "RakNet at an edge", packets: rakNetAtEdge},
}

// recording has datagrams that clients have sent, as an attacker on the path would see them.
type recording struct {
	counts     map[*conn]int
	handshakes []packet
	later      []packet
	edges      int // clients of the edge
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
	if c.Value.listener == edgeListener { // its floods know the names of its clients
		return
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
	for i := range 1024 * edgeListener {
		b := make([]byte, 1+rand.IntN(200))
		_, _ = noise.Read(b) // it never fails
		packets = append(packets, packet{i % edgeListener, b})
	}
	return packets
}

// offlineMagic marks RakNet's datagrams that belong to no connection.
var offlineMagic = []byte("\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78")

// forgedHandshakes makes the first datagram of each protocol, and RakNet's second one with invalid cookies.
func forgedHandshakes(*recording) (packets []packet) {
	now := time.Now()
	for i := range 64 {
		for listener, p := range spoken[:edgeListener] {
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

// unknownNames makes whole checks of ICE for joins that no client has asked for.
func unknownNames(*recording) (packets []packet) {
	for range 1024 {
		packets = append(packets, forgedCheck(rand.Uint64()>>33|1<<31))
	}
	return packets
}

// wrongPasswords makes checks of ICE for the joins of clients that play.
func wrongPasswords(r *recording) (packets []packet) {
	for range 256 {
		packets = append(packets, forgedCheck(edgeListener+1+listeners*uint64(rand.IntN(max(1, r.edges)))))
	}
	return packets
}

func forgedCheck(client uint64) packet {
	check := nethernet.Check{Role: nethernet.Controlling, Nominates: true}
	check.To, check.From = edge.Ufrags(client)
	binary.BigEndian.PutUint64(check.ID[:], rand.Uint64())
	return packet{edgeListener, nethernet.NewIntegrity().AppendCheck(nil, check, "another password")}
}

// dtlsRecords makes the first datagram of a handshake, and records that look encrypted.
func dtlsRecords(*recording) (packets []packet) {
	noise := rand.NewChaCha8([32]byte{2})
	for i := range 1024 {
		b := make([]byte, edge.RecordHeader+1+rand.IntN(200))
		_, _ = noise.Read(b) // it never fails
		copy(b, []byte{byte(20 + i%4), 0xfe, 0xfd, 0, 1})
		if i%4 == 2 {
			b[4], b[edge.RecordHeader] = 0, 1 // a client's hello
		}
		binary.BigEndian.PutUint16(b[11:], uint16(len(b)-edge.RecordHeader))
		packets = append(packets, packet{edgeListener, b})
	}
	return packets
}

// rakNetAtEdge makes RakNet's pings and first datagrams, and numbered ones of no session.
func rakNetAtEdge(r *recording) (packets []packet) {
	for _, p := range slices.Concat(forgedHandshakes(r), pings(r), r.later) {
		if p.listener != riptideListener {
			packets = append(packets, packet{edgeListener, p.payload})
		}
	}
	return packets
}
