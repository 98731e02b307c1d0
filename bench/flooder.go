package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	// floodBatch is how many datagrams leave by one system call.
	floodBatch = 64
	// headersSize is that of the headers of IPv4 and UDP.
	headersSize = 28
	// floodNice lets players, who share the flood's core, go before it, and it before whoever else is there.
	floodNice = -10
)

// flooder sends datagrams from forged addresses, as fast as one core can or to a rate.
type flooder struct {
	arena   *arena
	assault *assault
	shots   []shot
	to      [doors]netip.AddrPort
	players []netip.AddrPort
	rate    int // datagrams a second; 0: as many as can be

	raw      *ipv4.RawConn
	messages []ipv4.Message
	random   *rand.PCG
	sent     atomic.Uint64
	stopping atomic.Bool
	done     chan error
}

// start opens the way out and begins. It needs the right to write whole IP packets.
func (f *flooder) start() (err error) {
	var conn net.PacketConn
	// IPPROTO_RAW: what is written has its header, and nothing is heard.
	f.arena.within(func() { conn, err = net.ListenPacket("ip4:255", "0.0.0.0") })
	if err != nil {
		return fmt.Errorf("forge addresses: %w", err)
	}
	if f.raw, err = ipv4.NewRawConn(conn); err != nil {
		_ = conn.Close() // the error that matters is the one before
		return err
	}
	f.random = rand.NewPCG(1, 2)
	server := &net.IPAddr{IP: f.arena.server.AsSlice()}
	for range floodBatch {
		frame := make([]byte, headersSize, 1600)
		frame[0], frame[8], frame[9] = 0x45, 64, 17
		copy(frame[16:], server.IP)
		f.messages = append(f.messages, ipv4.Message{Buffers: [][]byte{frame}, Addr: server})
	}
	f.done = make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread keeps its core and its priority
		f.done <- errors.Join(pinThread(0, floodNice), f.run())
	}()
	return nil
}

// stop ends the flood and tells how much it was.
func (f *flooder) stop() (uint64, error) {
	f.stopping.Store(true)
	err := <-f.done
	return f.sent.Load(), errors.Join(err, f.raw.Close())
}

func (f *flooder) run() error {
	began := time.Now()
	for !f.stopping.Load() {
		if f.rate > 0 {
			due := began.Add(time.Duration(f.sent.Load()) * time.Second / time.Duration(f.rate))
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
			}
		}
		for i := range f.messages {
			f.forge(&f.messages[i])
		}
		n, err := f.raw.WriteBatch(f.messages, 0)
		if err != nil && n <= 0 {
			return fmt.Errorf("flood: %w", err)
		}
		f.sent.Add(uint64(n))
	}
	return nil
}

// forge writes the next datagram.
func (f *flooder) forge(m *ipv4.Message) {
	dice := f.random.Uint64()
	s := &f.shots[uint32(dice)%uint32(len(f.shots))]
	frame := append(m.Buffers[0][:headersSize], s.payload...)
	if f.assault.random {
		for at := headersSize; at+8 <= len(frame); at += 8 {
			binary.LittleEndian.PutUint64(frame[at:], f.random.Uint64())
		}
	}
	source, port := f.arena.source(uint32(dice>>32), f.assault.banned), uint16(dice>>48)|1024
	if f.assault.players && dice>>63 == 1 {
		one := f.players[uint32(dice>>32)%uint32(len(f.players))]
		source, port = one.Addr().As4(), one.Port()
	}
	copy(frame[12:16], source[:])
	binary.BigEndian.PutUint16(frame[2:], uint16(len(frame))) // some systems want it in their own order, and fill it in
	binary.BigEndian.PutUint16(frame[20:], port)
	binary.BigEndian.PutUint16(frame[22:], f.to[s.door].Port())
	binary.BigEndian.PutUint16(frame[24:], uint16(len(frame)-20))
	m.Buffers[0] = frame
}
