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

// The replays give one real peer's datagrams to our other side, at the times of the capture. They want the messages
// that the oracle reads. Addresses, GUIDs and the password are those of the capture, so that our offline messages can
// be compared byte by byte. Our side's online answers are ignored: the recorded peer's acknowledgements belong to
// another conversation, partly to datagrams that we never sent.

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

	asked     *codec.Event // with a copied payload
	connected bool
	messages  []codec.Message
	over      bool
	reason    codec.Reason
	sent      [][]byte
}

func newReplay(t testing.TB) *replay { return &replay{t: t, now: replayStart} }

// runTo advances the clock, and wakes the Conn at its timeouts.
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
			r.conn.Admit(r.now, 0)
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
			r.t.Fatalf("only %d of %d messages received; next is %s", i, len(o.messages), brief(o.messages[i]))
		case i >= len(o.messages):
			r.t.Fatalf("%d messages received, want %d; then came %s", len(r.messages), i, brief(r.messages[i]))
		case brief(r.messages[i]) != brief(o.messages[i]) || !bytes.Equal(r.messages[i].Payload, o.messages[i].Payload):
			r.t.Fatalf("message %d is %s, want %s", i, brief(r.messages[i]), brief(o.messages[i]))
		}
	}
}

func brief(m codec.Message) string {
	return fmt.Sprintf("%v, channel %d, %d bytes less %d bits, %.8x", m.Mode, m.Channel, len(m.Payload), m.Pad, m.Payload)
}

// eachConnection runs f for each client address of each capture.
func eachConnection(t *testing.T, f func(t *testing.T, c *capture, conn int)) {
	for _, c := range captures(t) {
		for conn := 1; conn <= c.conns(); conn++ {
			t.Run(fmt.Sprintf("%s/%d", c.Name, conn), func(t *testing.T) { f(t, &c, conn) })
		}
	}
}

func readByOracle(list []captured) *oracle {
	o := newOracle()
	for _, d := range list {
		o.take(d.Datagram)
	}
	return o
}

func contains(list [][]byte, b []byte) bool {
	return slices.ContainsFunc(list, func(x []byte) bool { return bytes.Equal(x, b) })
}
