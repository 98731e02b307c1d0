package webrtc

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/pion/datachannel"
	"github.com/pion/sctp"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/testkit/await"
)

// record is a record of DTLS with a number that no other has.
func record(kind byte, epoch uint16, content ...byte) []byte {
	b := []byte{kind, 0xfe, 0xfd, byte(epoch >> 8), byte(epoch), 0, 0, 0, 9, kind, byte(epoch), 0, byte(len(content))}
	return append(b, content...)
}

// datagrams reads datagrams, each after a byte with its length.
func datagrams(b []byte) (all [][]byte) {
	for len(b) > 0 && len(all) < 100 {
		n := min(int(b[0]), len(b)-1)
		all, b = append(all, b[1:1+n]), b[1+n:]
	}
	return all
}

func joined(all ...[]byte) (b []byte) {
	for _, one := range all {
		b = append(append(b, byte(len(one))), one...)
	}
	return b
}

// FuzzForged sends both ends of a connection what anybody can who knows their addresses. The connection goes on.
func FuzzForged(f *testing.F) {
	fatal, goodbye, hello := []byte{2, 40}, []byte{1, 0}, make([]byte, 40)
	hello[0] = 1
	f.Add(joined(record(23, 0, 1, 2, 3)))              // data in the clear
	f.Add(joined(record(21, 0, fatal...)))             // alerts in the clear
	f.Add(joined(record(21, 0, goodbye...)))           //
	f.Add(joined(record(21, 0, 2)))                    // half an alert
	f.Add(joined(record(24, 0, 1), record(63, 0, 1)))  // unknown types
	f.Add(joined(record(20, 0, 1), record(20, 0, 2)))  // a change of ciphers
	f.Add(joined(record(22, 0, hello...)))             // the hello of a new handshake
	f.Add(joined(record(22, 0), record(22, 0, 14, 0))) // half a handshake
	f.Add(joined(record(23, 1, hello...), record(22, 1, hello...), record(21, 1, fatal...)))
	f.Add(joined(append(record(23, 1, hello...), record(23, 0, 1)...))) // the second record in the clear
	f.Add(joined(record(25, 1, hello...), record(23, 2, 1), record(23, 0xffff, 1), []byte{23}, nil))
	for epoch := range uint16(2) {
		for content := range byte(2) {
			var all [][]byte
			for kind := range byte(80) {
				all = append(all, record(kind, epoch, content))
			}
			f.Add(joined(all...))
		}
	}
	f.Fuzz(func(t *testing.T, forged []byte) {
		server, client := connect(t, newHost(t, DefaultLimits), nil)
		for _, b := range datagrams(forged) {
			server.receive(b)
			client.receive(b)
		}
		for _, way := range [][2]*end{{server, client}, {client, server}} {
			way[0].send(t, game("still here"), codec.ReliableOrdered)
			await.Until(t, "a message came", func() bool { return way[1].received() == 1 || way[1].has(codec.Disconnected) })
			if way[1].has(codec.Disconnected) {
				t.Fatalf("a forged datagram has ended the connection: %+v", way[1].conn.End())
			}
		}
	})
}

// script is what a hostile peer does, in bytes.
type script struct{ left []byte }

func (s *script) next() (b byte) {
	if len(s.left) > 0 {
		b, s.left = s.left[0], s.left[1:]
	}
	return b
}

func (s *script) bytes() []byte {
	n := min(int(s.next()), len(s.left))
	b := s.left[:n]
	s.left = s.left[n:]
	return b
}

// chunk is a chunk of SCTP, whose length may lie.
func (s *script) chunk() []byte {
	kind, flags, lie, value := s.next(), s.next(), s.next(), s.bytes()
	b := append(binary.BigEndian.AppendUint16([]byte{kind, flags}, uint16(4+len(value)+int(lie%3))), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// hostile is DTLS's connection of a peer that changes its packets of SCTP.
type hostile struct {
	net.Conn
	script script
}

const sctpHeader = 12

func (h *hostile) Write(b []byte) (int, error) {
	p, s, times := bytes.Clone(b), &h.script, 1
	switch s.next() % 8 {
	case 1:
		times = 0
	case 2:
		p[int(s.next())%len(p)] ^= s.next() | 1
	case 3:
		p = p[:int(s.next())%len(p)]
	case 4:
		p = append(p, s.chunk()...)
	case 5:
		p = append(p[:sctpHeader], s.chunk()...)
	case 6:
		times = 2
	case 7:
		p = s.bytes()
	}
	if len(p) >= sctpHeader {
		clear(p[8:sctpHeader])
		binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	}
	for range times {
		if _, err := h.Conn.Write(p); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// fuzzTime bounds the game with a hostile peer, whose connection may never open.
const fuzzTime = 150 * time.Millisecond

// playHostile is a peer with a valid certificate. It opens channels, sends messages of its own, and leaves.
func playHostile(ctx context.Context, s *stack, packets []byte, messages script) {
	if s.secure() != nil {
		return
	}
	defer func() { _ = s.wire.Close() }()
	if s.wire.handshake(ctx) != nil {
		return
	}
	a, err := sctp.ClientContext(ctx, sctp.WithNetConn(&hostile{&s.wire, script{packets}}), sctp.WithLoggerFactory(quiet),
		sctp.WithMTU(sctpMTU))
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = a.Close() })
	defer stop()
	defer func() { _ = a.Close() }()
	for id, label := range []string{nethernet.ReliableLabel, nethernet.UnreliableLabel}[:2-messages.next()&1] {
		config := &datachannel.Config{Label: label, LoggerFactory: quiet}
		if _, err := datachannel.Dial(a, uint16(id), config); err != nil {
			return
		}
	}
	for len(messages.left) > 0 {
		kind := sctp.PayloadProtocolIdentifier(50 + messages.next()%8)
		stream, err := a.OpenStream(uint16(messages.next()%4), kind)
		if err != nil {
			return
		}
		if _, err := stream.WriteSCTP(messages.bytes(), kind); err != nil {
			return
		}
	}
	_ = a.Shutdown(ctx)
}

// FuzzPeer joins with a peer that has a valid certificate, and then sends any packets of SCTP, and any messages.
// Nothing breaks, what the stack holds is bounded, and it ends.
func FuzzPeer(f *testing.F) {
	open := []byte{0, 53, 3, 0, 5, 0, 'l', 'o', 'g', 'i', 'n'}
	f.Add([]byte(nil), []byte(nil), open)
	f.Add(record(22, 0, 1, 2, 3), []byte{6, 6, 6, 6, 6, 6}, open)
	f.Add([]byte(nil), []byte{0, 0, 0, 5, 0, 3, 0, 12, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 53}, open) // DATA
	f.Add([]byte(nil), []byte{0, 0, 0, 4, 3, 0, 0, 12, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 0, 0}, open)
	f.Add([]byte(nil), []byte{0, 0, 0, 4, 192, 0, 0, 4, 255, 255, 255, 255, 4, 130, 0, 1, 8, 0, 13, 0, 8}, open)
	f.Add([]byte(nil), []byte(nil), []byte{1, 50, 2, 3, 1, 1, 1, 53, 0, 200, 255, 1, 2})
	f.Fuzz(func(t *testing.T, plain, packets, messages []byte) {
		h, other := newHost(t, DefaultLimits), newHost(t, DefaultLimits)
		server := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
		client := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
		var err error
		if server.stack, err = h.Accept(&nethernet.Peer{
			Fingerprints: []nethernet.Fingerprint{other.Fingerprint()}}, server.wake); err != nil {
			t.Fatal(err)
		}
		ours := other.certificates[other.fingerprint.Digest]
		peer := &stack{host: other, ours: ours, dials: true, wake: client.wake, paused: true, peer: &nethernet.Peer{
			Fingerprints: []nethernet.Fingerprint{h.Fingerprint()}}}
		peer.wire.stack, peer.wire.arrived, peer.changed.L = peer, make(chan struct{}, 1), &peer.mu
		client.stack = peer
		server.conn, client.conn = nethernet.NewConn(server.stack, false), nethernet.NewConn(peer, true)
		server.deliver, client.deliver = client.receive, server.receive
		go server.run()
		go client.run()
		defer close(server.quit)
		defer close(client.quit)
		for _, b := range datagrams(plain) {
			server.receive(b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), fuzzTime)
		defer cancel()
		playHostile(ctx, peer, packets, script{messages})
		server.mu.Lock()
		if s := server.conn.Stats(); s.Held > DefaultLimits.Message || s.Queued > DefaultLimits.Queue {
			t.Errorf("%+v", s)
		}
		server.mu.Unlock()
		server.stack.Abandon()
	})
}
