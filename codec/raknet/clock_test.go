package raknet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/simnet"
)

func timestamped(at uint64, rest string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{idTimestamp}, at), rest...)
}

func TestClockTrustsTheShortestRoundTrip(t *testing.T) {
	var k peerClock
	for i, step := range []struct {
		roundTrip      time.Duration
		sent, answered uint64
		want           uint64 // what 5000 of the peer's clock is in ours
	}{
		{100 * ms, 1000, 2050, 4000},
		{10 * ms, 1100, 2110, 3995}, // asymmetric, but short
		{90 * ms, 1200, 2260, 3995},
		{90 * ms, 1300, 2360, 3995},
		{90 * ms, 1400, 2460, 3995},
		{90 * ms, 1500, 2560, 3995},
		{90 * ms, 1600, 2660, 3985}, // the short one is forgotten
	} {
		k.sample(step.roundTrip, step.sent, step.answered)
		b := timestamped(5000, "x")
		if k.adjust(b); !bytes.Equal(b, timestamped(step.want, "x")) {
			t.Errorf("step %d: adjusted to %x, want %d", i, b, step.want)
		}
	}
}

// TestClockLeavesTheRestAlone: only messages with a time, and something that it is of, are rewritten.
func TestClockLeavesTheRestAlone(t *testing.T) {
	var k peerClock
	k.sample(ms, 0, 1000)
	for _, b := range [][]byte{{}, {idTimestamp}, timestamped(5, ""), gamePayload(20)} {
		before := bytes.Clone(b)
		if k.adjust(b); !bytes.Equal(b, before) {
			t.Errorf("%x became %x", before, b)
		}
	}
	k = peerClock{}
	b := timestamped(77, "x")
	if k.adjust(b); !bytes.Equal(b, timestamped(77, "x")) {
		t.Errorf("adjusted to %x before the first sample", b)
	}
}

// clockNode drives one Conn, whose clock is ahead of the network's, and keeps what it received and when.
type clockNode struct {
	ahead      time.Duration
	self, peer netip.AddrPort
	p          *Protocol
	conn       codec.Conn
	reply      []byte
	gap        []time.Duration // between the time in a message, in terms of our clock, and now
	connected  bool
}

func (n *clockNode) Receive(now time.Time, from, _ netip.AddrPort, datagram []byte) {
	now = now.Add(n.ahead)
	if n.conn != nil {
		_ = n.conn.Receive(now, datagram)
	} else if conn, reply, err := n.p.Accept(now, from, datagram, nil); err == nil {
		n.conn, n.reply = conn, reply
	}
	n.drain(now)
}

func (n *clockNode) drain(now time.Time) {
	if n.conn == nil {
		return
	}
	for e, ok := n.conn.Poll(); ok; e, ok = n.conn.Poll() {
		switch e.Kind {
		case codec.Asked:
			n.conn.Admit(now, 1)
		case codec.Connected:
			n.connected = true
		case codec.Received:
			said := binary.BigEndian.Uint64(e.Payload[1:])
			n.gap = append(n.gap, now.Sub(time.UnixMilli(int64(said))))
		}
	}
}

func (n *clockNode) Advance(now time.Time) {
	if n.conn != nil {
		n.conn.Advance(now.Add(n.ahead))
		n.drain(now.Add(n.ahead))
	}
}

func (n *clockNode) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(n.reply) > 0 {
		b, n.reply = append(b, n.reply...), nil
		return b, n.self, n.peer, true
	}
	if n.conn == nil {
		return b, n.self, n.peer, false
	}
	b, ok := n.conn.Transmit(now.Add(n.ahead), b)
	return b, n.self, n.peer, ok
}

func (n *clockNode) NextTimeout() time.Time {
	if n.conn == nil || n.conn.NextTimeout().IsZero() {
		return time.Time{}
	}
	return n.conn.NextTimeout().Add(-n.ahead)
}

// TestTimestampsAreOfTheReceiversClock lets two peers whose clocks are an hour apart tell each other the time.
func TestTimestampsAreOfTheReceiversClock(t *testing.T) {
	net := simnet.New(t, 1, simnet.Weather{Latency: 20 * ms, Jitter: 10 * ms})
	server := &clockNode{ahead: time.Hour, self: linkServer, peer: linkClient, p: New(Options{})}
	client := &clockNode{self: linkClient, peer: linkServer}
	client.conn = New(Options{}).Dial(net.Now(), linkServer, codec.Hello{})
	net.Add(server, linkServer)
	net.Add(client, linkClient)
	net.Run(time.Second)
	if !client.connected || !server.connected {
		t.Fatal("not connected")
	}
	for range 40 {
		for _, n := range []*clockNode{client, server} {
			now := net.Now().Add(n.ahead)
			m := codec.Message{Payload: timestamped(uint64(now.UnixMilli()), "at"), Mode: codec.Unreliable}
			if err := n.conn.Send(now, m); err != nil {
				t.Fatal(err)
			}
		}
		net.Run(100 * ms)
	}
	for _, n := range []*clockNode{client, server} {
		if len(n.gap) != 40 {
			t.Errorf("%v got %d messages, want 40", n.self, len(n.gap))
		}
		for _, gap := range n.gap {
			if gap < 10*ms || gap > 40*ms {
				t.Errorf("%v takes a message for %v old, want about 20 to 30 ms", n.self, gap)
			}
		}
	}
}
