package raknet

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// nearWrap is RakNet with every counter of its connections starting a little below where it wraps. Both sides must.
type nearWrap struct{ *Protocol }

const wrapStart = Seq24(seq24Mask - 8)

func (p nearWrap) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	conn, reply, err := p.Protocol.Accept(now, from, datagram, reply)
	if c, ok := conn.(*Conn); ok {
		c.startAt(wrapStart)
	}
	return conn, reply, err
}

func (p nearWrap) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := p.Protocol.Dial(now, to, hello).(*Conn)
	c.startAt(wrapStart)
	return c
}

// startAt sets all numbers of a connection that has not used one yet.
func (c *Conn) startAt(n Seq24) {
	f := &c.sender.flight
	f.base, f.due, f.next, f.reliable = n, n, n, n
	c.sender.splitID = uint16(n)
	c.receiver.datagrams.next = n
	c.receiver.reliable.base, c.receiver.reliable.next = n, n
	for range maxChannels {
		c.sender.channels = append(c.sender.channels, sendChannel{order: n, sequence: n})
		c.receiver.channels.list = append(c.receiver.channels.list, channel{order: n, sequence: n})
	}
}
