package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
)

// rawBatch is how many datagrams leave by one system call.
const rawBatch = 64

// headersSize is that of the headers of IPv4 and UDP.
const headersSize = 28

// fillHeaders writes the headers of a datagram to a server, but for the source and the checksum, into headersSize zeros.
func fillHeaders(b []byte, to netip.Addr, port uint16, payload int) {
	b[0], b[8], b[9] = 0x45, 64, 17
	server := to.As4()
	copy(b[16:], server[:])
	binary.BigEndian.PutUint16(b[2:], uint16(headersSize+payload)) // some systems want it in their own order, and fill it in
	binary.BigEndian.PutUint16(b[22:], port)
	binary.BigEndian.PutUint16(b[24:], uint16(8+payload))
}

// rawGun is the gun where there is no cable: a socket that takes whole packets.
type rawGun struct {
	*flood
	conn     *ipv4.RawConn
	messages []ipv4.Message
	random   *rand.PCG
}

func newRawGun(f *flood) (gun, error) {
	// IPPROTO_RAW: what is written has its header, and nothing is heard.
	conn, err := net.ListenPacket("ip4:255", "0.0.0.0")
	if err != nil {
		return nil, err
	}
	g := &rawGun{flood: f, random: rand.NewPCG(1, 2), messages: make([]ipv4.Message, rawBatch)}
	if g.conn, err = ipv4.NewRawConn(conn); err != nil {
		_ = conn.Close() // the error that matters is the one before
		return nil, err
	}
	for i := range g.messages {
		g.messages[i] = ipv4.Message{Buffers: [][]byte{make([]byte, 1600)}, Addr: &net.IPAddr{IP: f.arena.server.AsSlice()}}
	}
	return g, nil
}

func (g *rawGun) run(stopping *atomic.Bool) (sent uint64, err error) {
	for began := time.Now(); !stopping.Load(); {
		if g.rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(sent) * time.Second / time.Duration(g.rate))))
		}
		for i := range g.messages {
			g.messages[i].Buffers[0] = g.forge(g.messages[i].Buffers[0])
		}
		n, err := g.conn.WriteBatch(g.messages, 0)
		if err != nil && n <= 0 {
			return sent, fmt.Errorf("flood: %w", err)
		}
		sent += uint64(n)
	}
	return sent, nil
}

func (g *rawGun) close() error { return g.conn.Close() }

// forge writes the next datagram into a buffer.
func (g *rawGun) forge(b []byte) []byte {
	dice := g.random.Uint64()
	s := &g.shots[uint32(dice)%uint32(len(g.shots))]
	b = b[:headersSize]
	fillHeaders(b, g.arena.server, g.to[s.door].Port(), len(s.payload))
	source, port := g.arena.source(uint32(dice>>32), g.assault.banned), uint16(dice>>48)|1024
	if g.assault.players && dice>>63 == 1 {
		one := g.players[uint32(dice>>32)%uint32(len(g.players))]
		source, port = one.Addr().As4(), one.Port()
	}
	copy(b[12:], source[:])
	binary.BigEndian.PutUint16(b[20:], port)
	return append(b, s.payload...)
}
