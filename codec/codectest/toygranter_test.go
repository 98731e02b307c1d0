package codectest

import (
	"encoding/binary"
	"net/netip"
	"time"

	"tidegate/codec"
)

// toyGranter is the toy with a grant before the hello. A client knocks, and sends its hello after the grant.
type toyGranter struct{ toyProtocol }

const (
	toyKnock = toyPong + 1 + iota // identity u64
	toyGrant                      // server's identity u64
)

// toyServer is the identity of the toy's server.
const toyServer = 1

func (p *toyGranter) Spec() *codec.Spec {
	spec := *p.toyProtocol.Spec()
	spec.FirstBytes.Add(toyKnock, toyKnock)
	spec.Openings.Add(toyKnock, toyKnock)
	spec.LoneOpenings = codec.ByteSetOf(toyKnock)
	return &spec
}

func (p *toyGranter) Sniff(b []byte) bool { return len(b) > 0 && b[0] == toyKnock }

func (p *toyGranter) Accept(now time.Time, _ netip.AddrPort, b, reply []byte) (codec.Conn, []byte, error) {
	body, ok := toyOpen(b)
	if !ok || len(body) != 9 {
		return nil, reply, codec.ErrMalformed
	}
	c := &toyKnocking{toyConn: p.conn(now), protocol: p, identity: binary.BigEndian.Uint64(body[1:])}
	c.server = true
	c.Grant(now, toyServer)
	return c, reply, nil
}

func (p *toyGranter) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := p.DialAhead(now, to, hello)
	c.Introduce(now, hello)
	return c
}

func (p *toyGranter) DialAhead(now time.Time, _ netip.AddrPort, hello codec.Hello) codec.Introducer {
	c := &toyKnocking{toyConn: p.conn(now), protocol: p, identity: hello.Identity}
	c.handshakeAt = now
	c.ask = binary.BigEndian.AppendUint64([]byte{toyKnock}, hello.Identity)
	return c
}

// toyKnocking is a Conn of toyGranter.
type toyKnocking struct {
	*toyConn
	protocol *toyGranter
	identity uint64 // the client's
	by       uint64 // the server's
	asked    bool   // server
	granted  bool
	grant    []byte       // server: datagram to send, without checksum
	hello    *codec.Hello // client: as introduced
}

func (c *toyKnocking) Identity() uint64 { return c.identity }

func (c *toyKnocking) Version() uint8 { return 0 }

func (c *toyKnocking) Defer() {
	if c.fault != "grants by itself" {
		c.granted, c.grant = false, nil
	}
}

func (c *toyKnocking) Grant(_ time.Time, server uint64) {
	c.granted, c.by = true, server
	c.grant = binary.BigEndian.AppendUint64([]byte{toyGrant}, server)
}

func (c *toyKnocking) Introduce(now time.Time, hello codec.Hello) {
	hello.Data = append([]byte(nil), hello.Data...)
	c.hello = &hello
	c.sayHello(now)
}

// sayHello continues as the toy does, once the client is granted and introduced.
func (c *toyKnocking) sayHello(now time.Time) {
	if c.granted && c.hello != nil {
		hello := *c.hello
		hello.Identity = c.identity
		c.ask, c.handshakeAt = c.protocol.toyProtocol.Dial(now, serverAddr, hello).(*toyConn).ask, now
	}
}

func (c *toyKnocking) Receive(now time.Time, b []byte) error {
	body, ok := toyOpen(b)
	switch {
	case !ok || c.over:
	case body[0] == toyKnock && c.server && c.granted && c.grant == nil:
		c.Grant(now, c.by) // the grant was lost
		return nil
	case body[0] == toyHello && c.server && c.granted && !c.asked:
		c.asked = true
		conn, _, err := c.protocol.toyProtocol.Accept(now, clientAddr, b, nil)
		if err == nil {
			c.events = append(c.events, conn.(*toyConn).events...)
		}
		return err
	case body[0] == toyGrant && !c.server && len(body) == 9:
		c.heardGrant(now, binary.BigEndian.Uint64(body[1:]))
		return nil
	}
	return c.toyConn.Receive(now, b)
}

func (c *toyKnocking) heardGrant(now time.Time, server uint64) {
	if c.granted && c.fault != "granted twice" {
		return
	}
	c.heard, c.granted, c.handshakeAt = now, true, time.Time{}
	if c.fault == "forgets the granting server" {
		server = 0
	}
	if c.hello == nil {
		c.push(codec.Event{Kind: codec.Granted, Identity: server})
	}
	if c.fault == "introduces itself" && c.hello == nil {
		c.hello = new(codec.Hello)
	}
	c.sayHello(now)
}

func (c *toyKnocking) Transmit(now time.Time, b []byte) ([]byte, bool) {
	if c.grant != nil && !c.over {
		start := len(b)
		b, c.grant = append(b, c.grant...), nil
		c.stats.Sent++
		return toySeal(b, start), true
	}
	return c.toyConn.Transmit(now, b)
}
