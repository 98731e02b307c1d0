//go:build interop

package interop_test

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// The rules of RUDP 0.12.0 that decide whether a session lives. No such library runs here, so these peers are made from
// facts about it (docs/protocols/rudp.md), and were compared with it.
const (
	rudpMost   = 33                     // packets without an acknowledgement
	rudpWait   = 500 * time.Millisecond // for a server's answer
	rudpPiece  = 20                     // bytes of a message here: a packet joins those of its period
	rudpClient = "200"                  // ticks a second of a client's game

	rudpRequest, rudpAccept, rudpRefuse, rudpGoodbye, rudpAlive, rudpData = 0, 1, 2, 3, 4, 5

	rudpRefused, rudpStopped, rudpLost = 1, 2, 3 // what a player is told
)

// rudpConn is either end of a session.
type rudpConn struct {
	send       func(d []byte)
	app, id    uint16
	next, last uint16 // of our packets, and of the peer's
	acked      uint16
	bits       uint32
	queue      []byte
	period     time.Duration // zero: the server has not answered yet
	at         time.Time     // of the next packet
}

func (c *rudpConn) packet(kind uint16, data ...byte) {
	c.send(rudpDatagramOf(c.app, c.next, c.last, c.bits, kind, data...))
	c.next++
}

// tick sends the packet of a period. It reports that too many have no acknowledgement.
func (c *rudpConn) tick(now time.Time) (lost bool) {
	if c.period == 0 || now.Before(c.at) {
		return false
	}
	c.at = now.Add(c.period)
	switch {
	case int16(c.next-1-c.acked) >= rudpMost:
		c.packet(rudpGoodbye)
		return true
	case len(c.queue) > 0:
		c.packet(rudpData, c.queue...)
		c.queue = nil
	default:
		c.packet(rudpAlive)
	}
	return false
}

// take takes a packet. It returns the packet's kind and data, unless the packet is no newer than the last one.
func (c *rudpConn) take(d []byte) (kind uint16, data []byte, ok bool) {
	if len(d) < 16 || binary.BigEndian.Uint16(d) != c.app ||
		crc32.ChecksumIEEE(d[:len(d)-4]) != binary.BigEndian.Uint32(d[len(d)-4:]) {
		return 0, nil, false
	}
	number, kind := binary.BigEndian.Uint16(d[2:]), binary.BigEndian.Uint16(d[10:])
	ahead := int16(number - c.last)
	if ahead <= 0 {
		return 0, nil, false
	}
	c.bits = c.bits>>ahead | 1<<31>>(ahead-1)
	c.last, c.acked = number, binary.BigEndian.Uint16(d[4:])
	return kind, d[12 : len(d)-4], true
}

// pieces tells the messages of a packet, and hands them on.
func (c *rudpConn) pieces(data []byte, take func(m []byte)) {
	for ; len(data) >= rudpPiece; data = data[rudpPiece:] {
		tell(event{Event: "received", Client: c.id, Payload: head(data[:rudpPiece]), Size: rudpPiece})
		take(data[:rudpPiece])
	}
}

func (c *rudpConn) say(o order) {
	for i := range o.Count {
		c.queue = append(c.queue, burstMessage(o, i)...)
	}
}

// rudpApp returns the application's ID, which is the last of an end's arguments, or 0.
func rudpApp(args []string) uint16 {
	app, _ := strconv.ParseUint(strings.Join(args, ""), 10, 16) // the harness writes it
	return uint16(app)
}

// rudpServe is a server that echoes: ADDRESS HZ [APP].
func rudpServe(args []string) {
	socket, app := bound(args[0]), rudpApp(args[2:])
	hz, _ := strconv.Atoi(args[1]) // the harness writes it
	heard := make(chan ripHeard, 1<<14)
	go receive(socket, func(from netip.AddrPort, d []byte) { heard <- ripHeard{from, nil, d} })
	clients := make(map[netip.AddrPort]*rudpConn)
	end := func(at netip.AddrPort) {
		tell(event{Event: "left", Client: clients[at].id})
		delete(clients, at)
	}
	tell(event{Event: "listening"})
	ripLoop(args[1], heard, func(now time.Time) {
		for at, c := range clients {
			if c.tick(now) {
				end(at)
			}
		}
	}, func(now time.Time, h ripHeard) {
		c := clients[h.from]
		if c == nil {
			if len(h.d) == 16 && h.d[11] == rudpRequest {
				c = &rudpConn{app: app, id: uint16(len(clients) + 1), period: time.Millisecond, at: now}
				c.send = func(d []byte) { _, _ = socket.WriteToUDPAddrPort(d, h.from) }
				if binary.BigEndian.Uint16(h.d) != app {
					c.packet(rudpRefuse)
					return
				}
				clients[h.from] = c
				c.packet(rudpAccept, byte(hz), 0)
				tell(event{Event: "joined", Client: c.id})
			}
			return
		}
		switch kind, data, ok := c.take(h.d); {
		case ok && kind == rudpGoodbye:
			end(h.from)
		case ok && kind == rudpData:
			c.pieces(data, func(m []byte) { c.queue = append(c.queue, m...) })
		}
	}, func(_ time.Time, o order) {
		for _, c := range clients {
			switch o.Do {
			case "burst":
				c.say(o)
			case "close":
				c.packet(rudpGoodbye)
			}
		}
		if o.Do == "close" {
			clear(clients)
			_ = socket.Close()
		}
	})
}

// rudpPlay is a client: SERVER [APP].
func rudpPlay(args []string) {
	socket := towards(args[0], 0)
	heard := make(chan ripHeard, 1<<14)
	go receive(socket.UDPConn, func(from netip.AddrPort, d []byte) { heard <- ripHeard{from, nil, d} })
	c := &rudpConn{app: rudpApp(args[1:]), last: 1<<16 - 1}
	c.send = func(d []byte) { _, _ = socket.Write(d) }
	over := false
	end := func(kind string, reason int) {
		over = true
		tell(event{Event: kind, Reason: reason})
	}
	tell(event{Event: "begins"})
	asked := time.Now()
	c.send(rudpDatagramOf(c.app, c.next, 0, 0, rudpRequest)) // the answer's acknowledgements begin with number 65535
	c.next++
	ripLoop(rudpClient, heard, func(now time.Time) {
		switch {
		case over:
		case c.period == 0 && now.Sub(asked) > rudpWait:
			end("refused", rudpLost)
		case c.tick(now):
			end("disconnected", rudpLost)
		}
	}, func(now time.Time, h ripHeard) {
		if over {
			return
		}
		switch kind, data, ok := c.take(h.d); {
		case !ok:
		case c.period == 0 && kind == rudpAccept && len(data) == 2:
			c.period = time.Duration(1000/int(data[0])) * time.Millisecond
			c.at = now.Add(c.period)
			tell(event{Event: "connected"})
		case c.period == 0 && kind == rudpRefuse:
			end("refused", rudpRefused)
		case kind == rudpGoodbye:
			end("disconnected", rudpStopped)
		case kind == rudpData:
			c.pieces(data, func([]byte) {})
		}
	}, func(_ time.Time, o order) {
		if o.Do == "burst" && !over {
			c.say(o)
		}
	})
}
