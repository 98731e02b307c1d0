//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// rudpDatagram returns a packet of RUDP's for application 0. Only messages (5) and acceptances (1) have data.
func rudpDatagram(number, acknowledged uint16, earlier uint32, kind uint16, data ...byte) []byte {
	return rudpDatagramOf(0, number, acknowledged, earlier, kind, data...)
}

func rudpDatagramOf(app, number, acknowledged uint16, earlier uint32, kind uint16, data ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, app)
	b = binary.BigEndian.AppendUint16(b, number)
	b = binary.BigEndian.AppendUint16(b, acknowledged)
	b = binary.BigEndian.AppendUint32(b, earlier)
	b = binary.BigEndian.AppendUint16(b, kind)
	if kind == 5 || kind == 1 {
		b = append(b, data...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// joinRUDP opens a session of RUDP. It goes on with packet number 2, and acknowledges what it knows of the server's.
func (a *attacker) joinRUDP() bool {
	a.send(rudpDatagram(0, 0, 0, 0))
	accept := a.awaitRUDP(1)
	if accept == nil {
		return false
	}
	a.order = uint32(binary.BigEndian.Uint16(accept[2:]))
	a.send(rudpDatagram(1, uint16(a.order), 0, 4))
	a.datagram = 2
	return a.awaitRUDP(4) != nil
}

// awaitRUDP reads until a packet of a kind, at most for a second.
func (a *attacker) awaitRUDP(kind byte) []byte {
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Second))
	for {
		n, err := a.conn.Read(a.buf)
		if err != nil {
			return nil
		}
		if n >= 16 && a.buf[11] == kind {
			return a.buf[:n]
		}
	}
}

// misbehaveRUDP sends packets of RUDP with correct checksums, half of them with numbers that continue. It acknowledges
// what it reads, so that the session goes on.
func (a *attacker) misbehaveRUDP(h *hostile) {
	for i := 0; i < 1500 && !h.stop.Load(); i++ {
		if i%10 == 0 {
			_ = a.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			if n, err := a.conn.Read(a.buf); err == nil && n >= 16 {
				a.order = uint32(binary.BigEndian.Uint16(a.buf[2:]))
			}
		}
		number, acknowledged, earlier := uint16(a.datagram), uint16(a.order), ^uint32(0)
		switch a.rng.IntN(8) {
		case 0:
			acknowledged, earlier = uint16(a.rng.Uint32()), a.rng.Uint32()
		case 1:
			number = uint16(a.rng.Uint32())
		case 2:
			number += uint16(a.rng.Uint32N(64))
		case 3:
			a.send(forgedDatagram(a.rng))
		default:
			a.datagram++
		}
		kind := []uint16{5, 5, 5, 4, 4, 0, 1, 2, uint16(a.rng.Uint32N(9))}[a.rng.IntN(9)]
		if i < 1400 && kind == 3 {
			kind = 4 // a goodbye comes late
		}
		a.send(rudpDatagram(number, acknowledged, earlier, kind, make([]byte, a.rng.IntN(1200))...))
		h.pause()
	}
}

// joinRType says hello to a game, and waits for its first entity.
func (a *attacker) joinRType() bool {
	a.send([]byte("start"))
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Second))
	for {
		n, err := a.conn.Read(a.buf)
		if err != nil {
			return false
		}
		if n == 5 && a.buf[0] == 0 {
			a.order = binary.BigEndian.Uint32(a.buf[1:])
			return true
		}
	}
}

// misbehaveRType sends instructions about an entity that exists and about others, torn ones, keys and hellos.
func (a *attacker) misbehaveRType(h *hostile) {
	for i := 0; i < 1500 && !h.stop.Load(); i++ {
		entity := a.order
		if a.rng.IntN(2) == 0 {
			entity = a.rng.Uint32()
		}
		b := binary.BigEndian.AppendUint32([]byte{byte(a.rng.IntN(12))}, entity)
		b = binary.BigEndian.AppendUint16(b, uint16(guess(a.rng, 4)))
		b = append(b, make([]byte, a.rng.IntN(40))...)
		switch a.rng.IntN(8) {
		case 0:
			b = b[:a.rng.IntN(len(b)+1)]
		case 1:
			b = []byte("start")
		case 2:
			b = []byte("pong")
		case 3:
			b = forgedDatagram(a.rng)
		}
		a.send(b)
		h.pause()
	}
}
