package raknet

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// The replays feed what one real peer sent to our other side, at the times of the capture, and want the messages the
// oracle reads. Addresses, GUIDs and the password are set as the capture has them, so that our offline messages can be
// compared byte by byte. What our side answers online goes nowhere: the recorded peer's acknowledgements are of another
// conversation and partly of datagrams that we never sent.

var (
	replayClient     = netip.MustParseAddrPort("127.0.0.1:50000")
	replayServerAddr = netip.MustParseAddrPort("127.0.0.1:40000")
)

var replayStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// replay is one of our Conns under replay.
type replay struct {
	t    testing.TB
	conn codec.Conn
	now  time.Time

	asked     *codec.Event // its payload cloned
	connected bool
	messages  []codec.Message
	over      bool
	reason    codec.Reason
	sent      [][]byte
}

func newReplay(t testing.TB) *replay { return &replay{t: t, now: replayStart} }

// runTo moves the clock, waking the Conn when it wants to be.
func (r *replay) runTo(at time.Duration) {
	end := replayStart.Add(at)
	for steps := 0; r.conn != nil && !r.over; steps++ {
		next := r.conn.NextTimeout()
		if next.IsZero() || next.After(end) {
			break
		}
		if steps > 100_000 {
			r.t.Fatal("the connection wakes without end")
		}
		r.now = later(r.now, next)
		r.conn.Advance(r.now)
		r.drain()
	}
	r.now = later(r.now, end)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// receive lends the Conn a copy and spoils it afterwards, so that a kept reference shows.
func (r *replay) receive(wire []byte) error {
	lent := bytes.Clone(wire)
	err := r.conn.Receive(r.now, lent)
	r.poll()
	for i := range lent {
		lent[i] = 0xdb
	}
	r.transmit()
	return err
}

func (r *replay) drain() { r.poll(); r.transmit() }

func (r *replay) poll() {
	for e, ok := r.conn.Poll(); ok; e, ok = r.conn.Poll() {
		if r.over {
			r.t.Fatalf("%v after Disconnected", e.Kind)
		}
		e.Payload = bytes.Clone(e.Payload)
		switch e.Kind {
		case codec.Asked:
			r.asked = &e
			r.conn.Admit(r.now, 1)
		case codec.Connected:
			r.connected = true
		case codec.Received:
			if !r.connected {
				r.t.Fatal("Received before Connected")
			}
			r.messages = append(r.messages, e.Message)
		case codec.Disconnected:
			r.over, r.reason = true, e.Reason
		default:
			r.t.Fatalf("unexpected event %v", e.Kind)
		}
	}
}

func (r *replay) transmit() {
	for {
		b, ok := r.conn.Transmit(r.now, nil)
		if !ok {
			return
		}
		r.sent = append(r.sent, b)
	}
}

func (r *replay) wantMessages(o *oracle) {
	r.t.Helper()
	for i := range max(len(r.messages), len(o.messages)) {
		switch {
		case i >= len(r.messages):
			r.t.Fatalf("%d messages received, want %d; the first missing: %s", len(r.messages), len(o.messages), brief(o.messages[i]))
		case i >= len(o.messages):
			r.t.Fatalf("%d messages received, want %d; the first too many: %s", len(r.messages), len(o.messages), brief(r.messages[i]))
		case brief(r.messages[i]) != brief(o.messages[i]) || !bytes.Equal(r.messages[i].Payload, o.messages[i].Payload):
			r.t.Fatalf("message %d is %s, want %s", i, brief(r.messages[i]), brief(o.messages[i]))
		}
	}
}

func brief(m codec.Message) string {
	return fmt.Sprintf("%v, channel %d, %d bytes less %d bits, %.8x", m.Mode, m.Channel, len(m.Payload), m.Pad, m.Payload)
}

// sentOffline returns what our side sent offline.
func (r *replay) sentOffline() (list [][]byte) {
	for _, b := range r.sent {
		if _, ok := offlineID(b); ok {
			list = append(list, b)
		}
	}
	return list
}

// peers is what a capture says of its two peers.
type peers struct {
	client, server netip.AddrPort
	clientGUID     uint64
	serverGUID     uint64
	version        uint8 // of the client
	password       []byte
}

// meet reads the peers off the handshake, with made-up values for what did not come to be.
func meet(t *testing.T, c *capture, conn int) peers {
	t.Helper()
	p := peers{
		client: replayClient, server: replayServerAddr, clientGUID: 7, serverGUID: 8, version: 6,
	}
	if d, ok := c.first(conn, "client", idOpenConnectionRequest1); ok {
		p.version = d.wire[17]
	}
	if d, ok := c.first(conn, "client", idOpenConnectionRequest2); ok {
		var m openConnectionRequest2
		if err := m.parse(d.wire, hasCookie(c, conn)); err != nil {
			t.Fatal(err)
		}
		p.server, p.clientGUID = m.server, m.guid
	}
	if d, ok := c.first(conn, "server", idOpenConnectionReply2); ok {
		var m openConnectionReply2
		if err := m.parse(d.wire); err != nil {
			t.Fatal(err)
		}
		p.client = m.client
	}
	p.serverGUID = serverGUID(c)
	if m, ok := capturedRequest(c, conn); ok {
		p.password = m.password
	}
	return p
}

func serverGUID(c *capture) uint64 {
	for _, d := range c.datagrams {
		if d.From != "server" {
			continue
		}
		if pong, err := ParsePong(d.wire); err == nil {
			return pong.GUID
		}
		var old incompatible
		if old.parse(d.wire) == nil {
			return old.guid
		}
		if _, ok := offlineID(d.wire); ok { // all others have it in one place
			m := refusal{}
			_ = m.parse(append([]byte{idAlreadyConnected}, d.wire[1:]...))
			return m.guid
		}
	}
	return 8
}

// hasCookie reports whether the real server of a capture demanded a cookie.
func hasCookie(c *capture, conn int) bool {
	d, ok := c.first(conn, "server", idOpenConnectionReply1)
	return ok && d.wire[25] != 0
}

// capturedRequest returns the first CONNECTION_REQUEST of a connection, whether it arrived or not.
func capturedRequest(c *capture, conn int) (m connectionRequest, ok bool) {
	for _, d := range c.datagrams {
		if d.Conn == conn && d.From == "client" {
			if m, ok := requestIn(d.wire); ok {
				return m, true
			}
		}
	}
	return connectionRequest{}, false
}

// requestIn returns the CONNECTION_REQUEST that a datagram begins with.
func requestIn(wire []byte) (m connectionRequest, ok bool) {
	var d datagram
	var c capsule
	if d.parse(wire) != nil || d.kind != dataDatagram {
		return m, false
	}
	if _, err := c.parse(d.body); err != nil || c.split {
		return m, false
	}
	return m, m.parse(c.payload) == nil
}

// refusing names the connections that the real server refused, and why.
var refusing = map[string]codec.Reason{
	"banned/1":                          codec.Banned,
	"cpp_client_gork_server_v6/1":       codec.Incompatible,
	"gork_client_cpp_server_v6/1":       codec.Incompatible,
	"incompatible_version_new_server/1": codec.Incompatible,
	"incompatible_version_old_server/1": codec.Incompatible,
	"ip_recently_connected/1":           codec.TooSoon,
	"security_client_without_libcat/1":  codec.Incompatible,
	"security_wrong_key/1":              codec.Incompatible,
	"server_full/2":                     codec.ServerFull,
	"slikenet_server_full/2":            codec.ServerFull,
	"wrong_password/1":                  codec.InvalidPassword,
}

// eachConnection runs f for each client address of each capture.
func eachConnection(t *testing.T, f func(t *testing.T, c *capture, conn int)) {
	for _, c := range captures(t) {
		for conn := 1; conn <= c.conns(); conn++ {
			t.Run(fmt.Sprintf("%s/%d", c.name, conn), func(t *testing.T) { f(t, &c, conn) })
		}
	}
}

func readByOracle(list []captured) *oracle {
	o := newOracle()
	for _, d := range list {
		o.take(d.wire)
	}
	return o
}

// offlineOf returns what a side of a real connection sent offline.
func offlineOf(c *capture, conn int, from string) (list [][]byte) {
	for _, d := range c.datagrams {
		if _, ok := offlineID(d.wire); ok && d.Conn == conn && d.From == from {
			list = append(list, d.wire)
		}
	}
	return list
}

func contains(list [][]byte, b []byte) bool {
	return slices.ContainsFunc(list, func(x []byte) bool { return bytes.Equal(x, b) })
}
