package flood

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/codec/raknet"
)

// NetherNet as an edge sees it: a join over HTTP, checks of ICE, and records that it cannot read. Within the records is
// RakNet, so that lost ones are sent again, as SCTP does. A check proves nothing about the record's author here: who
// forges records is no matter of an edge.
const (
	edgePassword = "apasswordof32lettersandsomefigure"
	checkPause   = 100 * time.Millisecond // until the first answer
	consentPause = 2 * time.Second
	recordHeader = 13
	dataRecord   = 23
)

// edge is NetherNet for clients and their server.
type edge struct {
	codec.Protocol
	spec codec.Spec
	junk atomic.Uint64 // datagrams at the server that no client has made
}

func newEdge() *edge {
	e := &edge{Protocol: raknet.New(raknet.Options{})}
	e.spec = *e.Protocol.Spec()
	e.spec.Name = "nethernet"
	return e
}

func (e *edge) Spec() *codec.Spec { return &e.spec }

// Sniff counts what a server must not see.
func (e *edge) Sniff(datagram []byte) bool {
	ok := nethernet.IsSTUN(datagram)
	if !ok {
		e.junk.Add(1)
	}
	return ok
}

// edgeUfrags are the names of a join: the client's number makes them, so that the server need not remember any.
func edgeUfrags(client uint64) (server, own string) {
	return fmt.Sprintf("server%08x", client), fmt.Sprintf("client%08x", client)
}

// Dial begins a client, which checks until its join is answered.
func (e *edge) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := &edgeConn{of: e, asks: true, due: now, integrity: nethernet.NewIntegrity()}
	c.server, c.client = edgeUfrags(hello.Identity)
	c.begin = func(now time.Time, _ []byte) (codec.Conn, []byte) { return e.Protocol.Dial(now, to, hello), nil }
	return c
}

// Accept makes the server's end of a client that has checked its path.
func (e *edge) Accept(_ time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
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
	of             *edge
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
	if b.Class != nethernet.Request || !b.IsWhole() || !c.integrity.Verify(&b, edgePassword) {
		return codec.ErrMalformed
	}
	mapped := netip.MustParseAddrPort("10.0.0.1:7777")
	c.out = append(c.out, c.integrity.AppendSuccess(nil, b.ID, mapped, edgePassword))
	return nil
}

// receiveRecord takes a record. Errors of the inner connection are its own matter.
func (c *edgeConn) receiveRecord(now time.Time, datagram []byte) error {
	if len(datagram) <= recordHeader || datagram[0] != dataRecord ||
		int(binary.BigEndian.Uint16(datagram[11:])) != len(datagram)-recordHeader {
		return codec.ErrMalformed
	}
	inner := datagram[recordHeader:]
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
	b = binary.BigEndian.AppendUint64(append(b, dataRecord, 0xfe, 0xfd), 1<<48|c.sent)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(inner))), inner...)
}

func (c *edgeConn) Advance(now time.Time) {
	if c.Conn != nil {
		c.Conn.Advance(now)
	}
	if !c.asks || now.Before(c.due) {
		return
	}
	c.checks++
	check := nethernet.Check{To: c.server, From: c.client, Role: nethernet.Controlling, Nominates: true}
	binary.BigEndian.PutUint64(check.ID[:], rand.Uint64())
	c.out = append(c.out, c.integrity.AppendCheck(nil, check, edgePassword))
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
	b = append(b, make([]byte, recordHeader)...)
	b, ok := c.Conn.Transmit(now, b)
	if !ok {
		return b[:start], false
	}
	c.record(b[:start], b[start+recordHeader:]) // in place
	return b, true
}

// edgeOwn is what either end says of itself over HTTP.
func edgeOwn(ufrag, setup string, at ...netip.AddrPort) []byte {
	digest := strings.Repeat("00:", 31) + "00"
	own := nethernet.Own{
		Ufrag: ufrag, Password: edgePassword, Setup: setup, Candidates: at,
		Fingerprints: []nethernet.Fingerprint{{Algorithm: "sha-256", Digest: digest}},
	}
	return own.Text()
}

// serveEdge answers joins for a server at an address, until the listener closes.
func serveEdge(l net.Listener, at netip.AddrPort) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offer, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			return
		}
		_, ufrag, _ := strings.Cut(string(offer), "a=ice-ufrag:client")
		ufrag, _, _ = strings.Cut(ufrag, "\r")
		_, _ = w.Write(edgeOwn("server"+ufrag, "active", at))
	}))
}

// joinEdge joins over HTTP, from a client's own address, again and again: the port may open later than that of the
// datagrams. A client that does not get in counts as not connected. The caller is in the clients' network namespace.
func joinEdge(ctx context.Context, local netip.Addr, to netip.AddrPort, client uint64) {
	for range 20 {
		if tryJoin(ctx, local, to, client) == nil || ctx.Err() != nil {
			return
		}
		time.Sleep(checkPause)
	}
}

func tryJoin(ctx context.Context, local netip.Addr, to netip.AddrPort, client uint64) error {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0)), Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp4", to.String()) // on this thread, which has the namespace
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, own := edgeUfrags(client)
	offer := edgeOwn(own, "actpass")
	_, err = fmt.Fprintf(conn, "POST /v1/join/%d HTTP/1.0\r\nHost: flood\r\nContent-Type: application/sdp\r\n"+
		"Content-Length: %d\r\n\r\n%s", client, len(offer), offer)
	answer, failed := io.ReadAll(conn)
	if err = errors.Join(err, failed); err == nil && !strings.Contains(string(answer), "a=ice-ufrag:server") {
		err = fmt.Errorf("answer %.40q", answer)
	}
	return err
}
