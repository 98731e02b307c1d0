package flood

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/codec/raknet"
	"tidegate/tools/bench/edge"
)

// NetherNet as an edge sees it: a join over HTTP, checks of ICE, and records that it cannot read. Within the records is
// RakNet, so that lost ones are sent again, as SCTP does. A check proves nothing about the record's author here: who
// forges records is no matter of an edge.
const (
	checkPause   = 100 * time.Millisecond // until the first answer
	consentPause = 2 * time.Second
)

// edgeProtocol is NetherNet for clients and their server.
type edgeProtocol struct {
	codec.Protocol
	spec codec.Spec
	junk atomic.Uint64 // datagrams at the server that no client has made
}

func newEdge() *edgeProtocol {
	e := &edgeProtocol{Protocol: raknet.New(raknet.Options{})}
	e.spec = *e.Protocol.Spec()
	e.spec.Name = "nethernet"
	return e
}

func (e *edgeProtocol) Spec() *codec.Spec { return &e.spec }

// Sniff counts what a server must not see.
func (e *edgeProtocol) Sniff(datagram []byte) bool {
	ok := nethernet.IsSTUN(datagram)
	if !ok {
		e.junk.Add(1)
	}
	return ok
}

// Dial begins a client, which checks until its join is answered.
func (e *edgeProtocol) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := &edgeConn{of: e, asks: true, due: now, integrity: nethernet.NewIntegrity()}
	c.server, c.client = edge.Ufrags(hello.Identity)
	c.begin = func(now time.Time, _ []byte) (codec.Conn, []byte) { return e.Protocol.Dial(now, to, hello), nil }
	return c
}

// Accept makes the server's end of a client that has checked its path.
func (e *edgeProtocol) Accept(_ time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	c := &edgeConn{of: e, integrity: nethernet.NewIntegrity()}
	if err := c.answer(datagram); err != nil {
		e.junk.Add(1)
		return nil, reply, err
	}
	c.begin = func(now time.Time, inner []byte) (codec.Conn, []byte) {
		conn, reply, _ := e.Protocol.Accept(now, from, inner, nil) // RakNet asks again
		return conn, reply
	}
	return c, reply, nil
}

// edgeConn is one end.
type edgeConn struct {
	codec.Conn     // within the records; nil until there is one
	of             *edgeProtocol
	asks           bool // it is the client's end
	server, client string
	begin          func(now time.Time, inner []byte) (codec.Conn, []byte)
	due            time.Time // of a client's next check
	checks, sent   uint64
	out            [][]byte
	integrity      *nethernet.Integrity
}

func (c *edgeConn) Receive(now time.Time, datagram []byte) (err error) {
	switch {
	case !nethernet.IsSTUN(datagram):
		err = c.receiveRecord(now, datagram)
	case c.asks && c.Conn == nil:
		c.Conn, _ = c.begin(now, nil)
		c.due = now.Add(consentPause)
	case !c.asks:
		err = c.answer(datagram)
	}
	if err != nil && !c.asks {
		c.of.junk.Add(1)
	}
	return err
}

// answer answers a check.
func (c *edgeConn) answer(datagram []byte) error {
	var b nethernet.Binding
	if err := b.Parse(datagram); err != nil {
		return err
	}
	if b.Class != nethernet.Request || !b.IsWhole() || !c.integrity.Verify(&b, edge.Password) {
		return codec.ErrMalformed
	}
	c.out = append(c.out, edge.AppendAnswer(nil, c.integrity, &b))
	return nil
}

// receiveRecord takes a record. Errors of the inner connection are its own matter.
func (c *edgeConn) receiveRecord(now time.Time, datagram []byte) error {
	if !edge.IsRecord(datagram) {
		return codec.ErrMalformed
	}
	inner := datagram[edge.RecordHeader:]
	if c.Conn != nil {
		_ = c.Conn.Receive(now, inner)
		return nil
	}
	var reply []byte
	if c.Conn, reply = c.begin(now, inner); len(reply) > 0 {
		c.out = append(c.out, c.record(nil, reply))
	}
	return nil
}

// record appends a record to b.
func (c *edgeConn) record(b, inner []byte) []byte {
	c.sent++
	return append(edge.AppendRecordHeader(b, c.sent, len(inner)), inner...)
}

func (c *edgeConn) Advance(now time.Time) {
	if c.Conn != nil {
		c.Conn.Advance(now)
	}
	if !c.asks || now.Before(c.due) {
		return
	}
	c.checks++
	c.out = append(c.out, edge.AppendCheck(nil, c.integrity, c.server, c.client))
	c.due = now.Add(checkPause)
	if c.Conn != nil {
		c.due = now.Add(consentPause)
	}
}

func (c *edgeConn) NextTimeout() time.Time {
	if c.Conn == nil {
		return c.due
	}
	return codec.Earliest(c.Conn.NextTimeout(), c.due)
}

func (c *edgeConn) Poll() (codec.Event, bool) {
	if c.Conn == nil {
		return codec.Event{}, false
	}
	return c.Conn.Poll()
}

func (c *edgeConn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	if len(c.out) > 0 {
		b = append(b, c.out[0]...)
		c.out = c.out[1:]
		return b, true
	}
	if c.Conn == nil {
		return b, false
	}
	start := len(b)
	b = append(b, make([]byte, edge.RecordHeader)...)
	b, ok := c.Conn.Transmit(now, b)
	if !ok {
		return b[:start], false
	}
	c.record(b[:start], b[start+edge.RecordHeader:]) // in place
	return b, true
}

// joinEdge joins over HTTP, from a client's own address, again and again: the port may open later than that of the
// datagrams. A client that does not get in counts as not connected. The caller is in the clients' network namespace.
func joinEdge(ctx context.Context, local netip.Addr, to netip.AddrPort, client uint64) {
	for range 20 {
		if edge.Join(ctx, local, to, client) == nil || ctx.Err() != nil {
			return
		}
		time.Sleep(checkPause)
	}
}
