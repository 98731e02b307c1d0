package relay

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/registry"
)

// TestSlowSidesAreWaitedFor lets one side send twelve times the size of a route's queue, as fast as its connection
// accepts. The peer is behind a slow line. All messages arrive in order, and both sides stay connected.
func TestSlowSidesAreWaitedFor(t *testing.T) {
	raknet, enet := named("raknet", registry.Use{}), named("enet", registry.Use{})
	for _, pair := range [][2]codec.Protocol{{raknet, raknet}, {enet, enet}, {enet, raknet}, {raknet, enet}} {
		for _, down := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s to %s, down %v", pair[0].Spec().Name, pair[1].Spec().Name, down), func(t *testing.T) {
				waitForSlowSide(t, pair[0], pair[1], down)
			})
		}
	}
}

func waitForSlowSide(t *testing.T, clients, servers codec.Protocol, down bool) {
	const size, messages = 1200, 10_000 // 12 MB
	line := simnet.Weather{Latency: 10 * time.Millisecond, Bandwidth: 2 << 20, Backlog: 100 * time.Millisecond}
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, clients, defaultRoute(servers))
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Admit(now, 1)
		}
	}
	client := &w.connect(codec.Hello{}).peer
	w.Run(time.Second)
	from, to := w.servers[0].peers[0], client
	if down {
		w.SetPath(listenerAddr, playerAddr(0), line)
	} else {
		from, to = to, from
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
			m := codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, size)}
			m.Payload[0] = 0x86
			binary.BigEndian.PutUint32(m.Payload[size-4:], uint32(said))
			if from.conn.Send(w.Now(), m) != nil {
				break // the connection's queue is full
			}
			said++
		}
		w.After(5*time.Millisecond, say)
	}
	say()
	if !w.RunUntil(time.Minute, func() bool { return came == messages || to.gone() || from.gone() }) {
		t.Errorf("%d of %d messages after a minute", came, messages)
	}
	got := to.received()
	for i, m := range got {
		if n := binary.BigEndian.Uint32(m.Payload[len(m.Payload)-4:]); int(n) != i { // bridges change the beginning
			t.Fatalf("message %d is the one of number %d", i, n)
		}
	}
	if len(got) != messages || to.gone() || from.gone() {
		t.Errorf("%d of %d messages came; gone: %v, %v", len(got), messages, to.gone(), from.gone())
	}
}

// TestSmallMessagesSlowThePlayer asserts that small messages to a server that does not read slow the player, and do not
// end the session. The copies for the next server (hold) are more than the server's own connection counts.
func TestSmallMessagesSlowThePlayer(t *testing.T) {
	s := newSaga(t, 1, simnet.Weather{Latency: time.Millisecond}, raknet6(), func(r *Route) { r.Bridge.Queue = 64 << 10 })
	s.servers[0].busy = true
	for range 200 {
		for range 10 {
			s.send(&s.player.peer, codec.Message{Payload: []byte{0x86, 0, 0}, Mode: codec.ReliableOrdered})
		}
		s.Run(5 * time.Millisecond)
	}
	for e := range s.proxy.relay.table.All {
		if got := e.Value.client.pressure; got != codec.Refuse || s.player.gone() {
			t.Errorf("pressure %d, gone = %v; want %d, false", got, s.player.gone(), codec.Refuse)
		}
	}
	if n := s.proxy.relay.table.Len(); n != 1 {
		t.Errorf("%d sessions", n)
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
