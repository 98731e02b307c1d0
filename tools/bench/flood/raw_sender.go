package flood

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

// rawBatch is the number of datagrams for one system call.
const rawBatch = 64

// headersSize is the size of the IPv4 and UDP headers.
const headersSize = 28

// fillHeaders writes the headers of a datagram into headersSize zeros. It leaves out the source and the checksum.
func fillHeaders(b []byte, to netip.Addr, port uint16, payload int) {
	b[0], b[8], b[9] = 0x45, 64, 17
	server := to.As4()
	copy(b[16:], server[:])
	binary.BigEndian.PutUint16(b[2:], uint16(headersSize+payload)) // some systems overwrite this in their own byte order
	binary.BigEndian.PutUint16(b[22:], port)
	binary.BigEndian.PutUint16(b[24:], uint16(8+payload))
}

// rawSender is the sender for loopback: a raw socket that takes whole IP packets.
type rawSender struct {
	*plan
	conn     *ipv4.RawConn
	messages []ipv4.Message
	random   *rand.PCG
}

func newRawSender(p *plan) (sender, error) {
	// With protocol 255, IPPROTO_RAW, written packets have their own headers, and the socket receives nothing.
	conn, err := net.ListenPacket("ip4:255", "0.0.0.0")
	if err != nil {
		return nil, err
	}
	s := &rawSender{plan: p, random: rand.NewPCG(1, 2), messages: make([]ipv4.Message, rawBatch)}
	if s.conn, err = ipv4.NewRawConn(conn); err != nil {
		_ = conn.Close() // the earlier error matters more
		return nil, err
	}
	for i := range s.messages {
		s.messages[i] = ipv4.Message{Buffers: [][]byte{make([]byte, 1600)}, Addr: &net.IPAddr{IP: p.testbed.server.AsSlice()}}
	}
	return s, nil
}

func (s *rawSender) run(stopping *atomic.Bool) (sent uint64, err error) {
	for began := time.Now(); !stopping.Load(); {
		if s.rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(sent) * time.Second / time.Duration(s.rate))))
		}
		for i := range s.messages {
			s.messages[i].Buffers[0] = s.forge(s.messages[i].Buffers[0])
		}
		n, err := s.conn.WriteBatch(s.messages, 0)
		if err != nil && n <= 0 {
			return sent, fmt.Errorf("flood: %w", err)
		}
		sent += uint64(n)
	}
	return sent, nil
}

func (s *rawSender) close() error { return s.conn.Close() }

// forge writes the next datagram into a buffer.
func (s *rawSender) forge(b []byte) []byte {
	random := s.random.Uint64()
	one := &s.packets[uint32(random)%uint32(len(s.packets))]
	b = b[:headersSize]
	fillHeaders(b, s.testbed.server, s.to[one.listener].Port(), len(one.payload))
	source, port := s.testbed.source(uint32(random>>32), s.attack.banned), uint16(random>>48)|1024
	if s.attack.replay && random>>63 == 1 {
		client := s.clients[uint32(random>>32)%uint32(len(s.clients))]
		source, port = client.Addr().As4(), client.Port()
	}
	copy(b[12:], source[:])
	binary.BigEndian.PutUint16(b[20:], port)
	return append(b, one.payload...)
}
