//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/ipv4"
)

// The attackers write the bytes of the protocols by themselves: they share no code with the codecs.

// offlineMagic marks RakNet's messages outside of a connection.
var offlineMagic = []byte{0, 0xff, 0xff, 0, 0xfe, 0xfe, 0xfe, 0xfe, 0xfd, 0xfd, 0xfd, 0xfd, 0x12, 0x34, 0x56, 0x78}

// rawSocket sends UDP datagrams from any address. It needs root.
type rawSocket struct{ conn *ipv4.RawConn }

func newRawSocket() (*rawSocket, error) {
	conn, err := net.ListenPacket("ip4:255", "127.0.0.1")
	if err != nil {
		return nil, err
	}
	raw, err := ipv4.NewRawConn(conn)
	return &rawSocket{raw}, err
}

func (s *rawSocket) send(from, to netip.AddrPort, payload []byte) {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b, from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	h := ipv4.Header{
		Version: 4, Len: 20, TotalLen: 28 + len(payload), TTL: 64, Protocol: 17,
		Src: from.Addr().AsSlice(), Dst: to.Addr().AsSlice(),
	}
	_ = s.conn.WriteTo(&h, append(b, payload...), nil) // a refused datagram is one less
}

// udpPeers lists the sockets of this machine that are connected to a port: their own addresses.
func udpPeers(port uint16) (all []netip.AddrPort) {
	table, _ := os.ReadFile("/proc/net/udp")
	for _, line := range strings.Split(string(table), "\n") {
		var n, ip, own, peerIP, peer uint32
		if c, _ := fmt.Sscanf(line, "%d: %X:%X %X:%X", &n, &ip, &own, &peerIP, &peer); c == 5 && peer == uint32(port) {
			from := netip.AddrFrom4([4]byte{byte(ip), byte(ip >> 8), byte(ip >> 16), byte(ip >> 24)})
			all = append(all, netip.AddrPortFrom(from, uint16(own)))
		}
	}
	return all
}

// guess is a number of n bits, small as in young sessions in half of all cases.
func guess(rng *rand.Rand, bits int) uint32 {
	if rng.IntN(2) == 0 {
		return rng.Uint32N(1000)
	}
	return rng.Uint32() & (1<<bits - 1)
}

func append24(b []byte, n uint32) []byte { return append(b, byte(n), byte(n>>8), byte(n>>16)) }

// forgedDatagram returns a datagram that may hurt a session of one of the protocols.
func forgedDatagram(rng *rand.Rand) []byte {
	switch rng.IntN(13) {
	case 0: // RakNet: a number without content
		return append24([]byte{0x84}, guess(rng, 24))
	case 1: // RakNet: a goodbye, in a datagram or bare
		if rng.IntN(4) == 0 {
			return []byte{0x15}
		}
		return append(append24([]byte{0x84}, guess(rng, 24)), 0, 0, 8, 0x15)
	case 2: // RakNet: a reliable ordered goodbye or message
		b := append(append24([]byte{0x84}, guess(rng, 24)), 0x60, 0, 8)
		b = append24(append24(b, guess(rng, 24)), guess(rng, 24))
		return append(b, 0, []byte{0x15, 0xfe, 0x00, 0x16}[rng.IntN(4)])
	case 3: // RakNet: acknowledgements, or requests to send again
		first := guess(rng, 24)
		return append24(append24([]byte{[]byte{0xc0, 0xa0}[rng.IntN(2)], 0, 1, 0}, first), first+rng.Uint32N(300))
	case 4: // RakNet: a part of a split message
		b := append(append24([]byte{0x84}, guess(rng, 24)), 0x70, 0, 8)
		b = append(append24(append24(b, guess(rng, 24)), guess(rng, 24)), 0)
		b = binary.BigEndian.AppendUint32(b, rng.Uint32N(2000))
		b = binary.BigEndian.AppendUint16(b, uint16(rng.Uint32N(64)))
		return append(binary.BigEndian.AppendUint32(b, rng.Uint32N(600)), 0xfe)
	case 5: // RakNet: a new handshake
		b := append(append([]byte{0x05}, offlineMagic...), 11)
		return append(b, make([]byte, 400)...)
	case 6: // Riptide: goodbye, refusal, welcome, connect
		return [][]byte{{0x05}, {0x45}, {0x03}, {0x03, 0x01}, {0x18, 0, 0x10, 0, 0}, {0x02}, {0x04}}[rng.IntN(7)]
	case 7: // Riptide: acknowledgements and heartbeats
		b := []byte{[]byte{1, 0x11, 2, 4, 0x14}[rng.IntN(5)]}
		return append(b, byte(guess(rng, 8)), byte(guess(rng, 8)), byte(rng.Uint32()), byte(rng.Uint32()))
	case 8: // Riptide: a reliable or notify message
		kind := []byte{0x07, 0x06}[rng.IntN(2)] | byte(rng.Uint32()<<4)
		return append([]byte{kind}, byte(rng.Uint32()), byte(rng.Uint32()), 1, 2)
	case 9, 10: // ENet: commands of any session
		b := binary.BigEndian.AppendUint16(nil, 0x8000|uint16(rng.Uint32N(4))<<12|uint16(rng.Uint32N(0xfff)))
		b = binary.BigEndian.AppendUint16(b, uint16(rng.Uint32()))
		kind := []byte{0x84, 0x85, 0x86, 0x8a, 0x8b, 0x01, 0x88}[rng.IntN(7)]
		b = append(b, kind, []byte{0xff, 0, 1}[rng.IntN(3)], byte(guess(rng, 16)>>8), byte(rng.Uint32()))
		return append(b, make([]byte, 4+rng.IntN(24))...)
	case 11: // RUDP: a goodbye, a packet without content, or a message
		kind := uint16(3 + rng.IntN(3))
		return rudpDatagram(uint16(guess(rng, 15)), uint16(guess(rng, 15)), rng.Uint32(), kind, 0x52, 0x55, byte(kind))
	}
	b := make([]byte, 1+rng.IntN(60))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// attacker is a client that speaks by bytes.
type attacker struct {
	conn net.Conn
	rng  *rand.Rand
	buf  []byte
	// Numbers of the next datagram, reliable message and ordered message, in RakNet.
	datagram, reliable, order uint32
}

func newAttacker(rng *rand.Rand, from, port string) (*attacker, error) {
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("udp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	return &attacker{conn: conn, rng: rng, buf: make([]byte, 2048)}, nil
}

func (a *attacker) send(b []byte) { _, _ = a.conn.Write(b) } // refused datagrams are part of an attack

// await reads until a datagram begins with a byte, at most for a second.
func (a *attacker) await(first byte) []byte {
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Second))
	for {
		n, err := a.conn.Read(a.buf)
		if err != nil {
			return nil
		}
		if n > 0 && a.buf[0] == first {
			return a.buf[:n]
		}
	}
}

// joinRakNet opens a RakNet connection as Bedrock's clients do. steps says how far the handshake goes.
func (a *attacker) joinRakNet(steps int) bool {
	a.send(append(append(append([]byte{0x05}, offlineMagic...), 11), make([]byte, 1400)...))
	reply := a.await(0x06)
	if len(reply) < 32 || steps == 1 {
		return false
	}
	cookie := append([]byte(nil), reply[26:30]...)
	address := []byte{4, 0x80, 0xff, 0xff, 0xfe, 0, 1}
	b := append(append([]byte{0x07}, offlineMagic...), append(cookie, 0)...)
	b = append(append(b, address...), 0x05, 0x78)
	a.send(binary.BigEndian.AppendUint64(b, a.rng.Uint64()))
	if a.await(0x08) == nil || steps == 2 {
		return false
	}
	a.sendOrdered(append(binary.BigEndian.AppendUint64([]byte{0x09}, 7), make([]byte, 9)...))
	if a.await(0x84) == nil || steps == 3 {
		return false
	}
	b = append([]byte{0x13}, address...)
	for range 20 {
		b = append(b, address...)
	}
	a.sendOrdered(append(b, make([]byte, 16)...))
	return true
}

// sendOrdered sends a reliable ordered message of RakNet.
func (a *attacker) sendOrdered(payload []byte) {
	b := append(append24([]byte{0x84}, a.datagram), 0x60)
	b = binary.BigEndian.AppendUint16(b, uint16(8*len(payload)))
	b = append(append24(append24(b, a.reliable), a.order), 0)
	a.send(append(b, payload...))
	a.datagram, a.reliable, a.order = a.datagram+1, a.reliable+1, a.order+1
}

// joinRiptide opens a connection of Riptide 2.2.
func (a *attacker) joinRiptide() bool {
	a.send([]byte{0x02})
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Second))
	n, err := a.conn.Read(a.buf)
	if err != nil || n < 5 || a.buf[0]&0xf != 8 {
		return false
	}
	welcome := append([]byte(nil), a.buf[:n]...)
	a.send([]byte{0x11, 0, 0x10, 0, 0})
	a.send(welcome)
	return true
}

// joinENet opens a connection of ENet without checksums, and returns the header of further datagrams.
func (a *attacker) joinENet() (head []byte, ok bool) {
	b := append([]byte{0x8f, 0xff, 0, 1, 0x82, 0xff, 0, 1, 0, 0, 0xff, 0xff}, 0, 0, 5, 0x78, 0, 1, 0, 0, 0, 0, 0, 2)
	b = append(b, make([]byte, 8)...)
	b = append(b, 0, 0, 0x13, 0x88, 0, 0, 0, 2, 0, 0, 0, 2)
	a.send(append(b, 1, 2, 3, 4, 0, 0, 0, 0))
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Second))
	n, err := a.conn.Read(a.buf)
	if err != nil || n < 12 || a.buf[4]&0xf != 3 {
		return nil, false
	}
	v := a.buf[:n]
	peer := binary.BigEndian.Uint16(v[8:])&0xfff | uint16(v[10]&3)<<12
	head = binary.BigEndian.AppendUint16(nil, peer|0x8000)
	head = append(head, 0, 2)
	a.send(append(append(head[:4:4], 0x01, 0xff, v[6], v[7], v[6], v[7]), v[2], v[3]))
	return head, true
}
