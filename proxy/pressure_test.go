package proxy

import (
	"encoding/binary"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/simnet"
)

// TestSlowSidesAreWaitedFor lets one side send twelve times the size of a route's queue, as fast as its connection
// accepts. The peer is behind a slow line. All messages arrive in order, and both sides stay connected.
func TestSlowSidesAreWaitedFor(t *testing.T) {
	const size, messages = 1200, 10_000 // 12 MB
	line := simnet.Weather{Latency: 10 * time.Millisecond, Bandwidth: 2 << 20, Backlog: 100 * time.Millisecond}
	for _, down := range []bool{true, false} {
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, raknet6(), defaultRoute(raknet6()))
		w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind == codec.Asked {
				p.conn.Admit(now, 1)
			}
		}
		client := &w.connect(codec.Hello{}).peer
		w.Run(time.Second)
		server := w.servers[0].peers[0]
		from, to := server, client
		if down {
			w.SetPath(listenerAddr, playerAddr(0), line)
		} else {
			from, to = client, server
			w.SetPath(upstreamSocketAddr(0), serverAddr, line)
		}
		said, came := 0, 0
		to.react = func(_ time.Time, _ *peer, ev *codec.Event) {
			if ev.Kind == codec.Received {
				came++
			}
		}
		var say func()
		say = func() {
			for said < messages {
				m := codec.Message{Mode: codec.ReliableOrdered, Payload: binary.BigEndian.AppendUint32([]byte{0x90}, uint32(said))}
				m.Payload = append(m.Payload, make([]byte, size-len(m.Payload))...)
				if from.conn.Send(w.Now(), m) != nil {
					break // the connection's queue is full
				}
				said++
			}
			w.After(5*time.Millisecond, say)
		}
		say()
		if !w.RunUntil(time.Minute, func() bool { return came == messages || to.gone() || from.gone() }) {
			t.Errorf("down %v: %d of %d messages after a minute", down, len(to.received()), messages)
		}
		got := to.received()
		for i, m := range got {
			if n := binary.BigEndian.Uint32(m.Payload[1:]); int(n) != i {
				t.Fatalf("down %v: message %d is the one of number %d", down, i, n)
			}
		}
		if len(got) != messages || to.gone() || from.gone() {
			t.Errorf("down %v: %d of %d messages came; gone: %v, %v", down, len(got), messages, to.gone(), from.gone())
		}
	}
}

// waitingConn is a connection with messages that wait for an earlier one.
type waitingConn struct {
	codec.Throttler
	waiting int
	set     codec.Pressure
}

func (c *waitingConn) Waiting() int { return c.waiting }

func (c *waitingConn) Throttle(_ time.Time, p codec.Pressure) { c.set = p }

// TestWaitingMessagesNeedRoom: messages that wait for an earlier one count for the queue that they will need. They
// alone do not refuse the earlier one.
func TestWaitingMessagesNeedRoom(t *testing.T) {
	const limit = 4 << 20
	for _, test := range []struct {
		waiting int
		fill    float64
		want    codec.Pressure
	}{
		{0, 0.4, codec.NoPressure},
		{limit / 4, 0.4, codec.Hesitate},
		{limit / 2, 0.3, codec.Refuse},
		{100 * limit, 0.2, codec.Hesitate},
	} {
		c := &waitingConn{waiting: test.waiting}
		s := side{}
		s.Conn = c
		s.press(time.Time{}, test.fill+s.waiting(limit), false)
		if c.set != test.want {
			t.Errorf("%d bytes wait beside a queue filled by %v: pressure %d, want %d", test.waiting, test.fill, c.set,
				test.want)
		}
	}
}
