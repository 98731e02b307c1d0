package raknet

import (
	"encoding/binary"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

func TestPacerSpreadsTheWindow(t *testing.T) {
	const segment = 1000
	rate := pace{100 * segment, 100 * ms} // a datagram a millisecond
	var p pacer
	now := 10 * time.Second
	burst := func(leeway int) (n int) {
		for p.allows(now, rate, segment, leeway) {
			p.sent(segment)
			n++
		}
		return n
	}
	for _, step := range []struct {
		what   string
		wait   time.Duration
		leeway int
		want   int
	}{
		{"the first burst", 0, 0, burstDatagrams},
		{"nothing earned", 0, 0, 0},
		{"beyond it", 0, 3 * segment, 3},
		{"that is paid off first", 3 * ms, 0, 0},
		{"a datagram's time", ms, 0, 1},
		{"five of them", 5 * ms, 0, 5},
		{"after a long silence", time.Hour, 0, burstDatagrams},
	} {
		now += step.wait
		if got := burst(step.leeway); got != step.want {
			t.Fatalf("%s: %d datagrams, want %d", step.what, got, step.want)
		}
	}
	if p.WakeAt != now+ms {
		t.Errorf("wakes after %v, want 1 ms", p.WakeAt-now)
	}
	now = p.WakeAt
	if got := burst(0); got != 1 {
		t.Errorf("%d datagrams when it wakes, want 1", got)
	}
}

func TestPacerWithoutARoundTrip(t *testing.T) {
	var p pacer
	for range 100 {
		if !p.allows(0, pace{1000, 0}, 1000, 0) {
			t.Fatal("held back before a round trip is known")
		}
		p.sent(1000)
	}
}

// TestMegabyteOverTwoMegabits fills a narrow path with a large message while the game continues. Little of it is lost,
// and the game's small messages do not wait behind it.
func TestMegabyteOverTwoMegabits(t *testing.T) {
	net, client, server := newSim(t, simnet.Weather{
		Latency: 25 * ms, Bandwidth: 250_000, Backlog: 100 * ms, Loss: 0.01,
	}, 0)
	start := net.Now()
	server.send(t, start, codec.Message{Payload: gamePayload(1_000_000), Mode: codec.ReliableOrdered})
	const small = 31
	var worst, took time.Duration
	for i := 0; took == 0; i++ {
		if i == 60*20 {
			t.Fatal("a megabyte did not arrive within 20 s")
		}
		payload := gamePayload(small)
		binary.BigEndian.PutUint64(payload[1:], uint64(net.Now().UnixNano()))
		mode := []codec.Mode{codec.Unreliable, codec.ReliableOrdered}[i%2]
		server.send(t, net.Now(), codec.Message{Payload: payload, Mode: mode, Channel: uint8(i % 2)})
		net.Run(time.Second / 60)
		for _, m := range client.got {
			if len(m.payload) > small {
				took = m.at.Sub(start)
				continue
			}
			worst = max(worst, m.at.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(m.payload[1:])))))
		}
		client.got = client.got[:0]
	}
	stats := server.conn.Stats()
	if took > 6*time.Second {
		t.Errorf("a megabyte took %v, want little more than the path's 4 s", took)
	}
	if worst > 400*ms {
		t.Errorf("a small message took %v meanwhile", worst)
	}
	if stats.Lost > stats.Sent/12 {
		t.Errorf("%d of %d datagrams lost, want few beside slow start's last round", stats.Lost, stats.Sent)
	}
	t.Logf("a megabyte took %v, small messages up to %v, %d of %d datagrams lost", took, worst, stats.Lost, stats.Sent)
}

// TestSmallMessagesOvertakeBulk sends small messages after a large one. Those of its own channel cannot be delivered
// before it, and stay behind. The others overtake it.
func TestSmallMessagesOvertakeBulk(t *testing.T) {
	s := newSender(0)
	s.Congestion.Window = 1 << 20
	s.enqueueOne(0, codec.ReliableOrdered, bulkSize, 0) // on channel 2
	s.enqueueOne(0, codec.ReliableOrdered, 10, 0)
	s.enqueueOne(0, codec.UnreliableSequenced, 11, 0)
	s.enqueueOne(0, codec.Unreliable, 12, 0)
	s.enqueue(0, codec.Message{Payload: gamePayload(13), Mode: codec.ReliableOrdered, Channel: 3})
	var got []int
	for _, d := range s.transmitAll(t, 0) {
		for _, c := range d {
			if !c.split {
				got = append(got, len(c.payload))
			} else if c.splitIndex == c.splitCount-1 {
				got = append(got, bulkSize)
			}
		}
	}
	want := []int{12, 13, bulkSize, 10, 11}
	if len(got) != len(want) {
		t.Fatalf("sent %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("sent %v, want %v", got, want)
		}
	}
	s.enqueueOne(0, codec.ReliableOrdered, 14, 0)
	if s.small.size != 1 {
		t.Error("a message of the channel still waits in line, though nothing is ahead of it")
	}
}

// TestBulkAndSmallTakeTurns keeps both kinds waiting: each starts every other datagram.
func TestBulkAndSmallTakeTurns(t *testing.T) {
	s := newSender(0)
	s.Congestion.Window = 1 << 20
	s.enqueueOne(0, codec.ReliableOrdered, 10*516, 0)
	for range 10 {
		s.enqueueOne(0, codec.Unreliable, 500, 0)
	}
	for i, d := range s.transmitAll(t, 0) {
		if bulk := i%2 == 1; d[0].split != bulk {
			t.Fatalf("datagram %d: bulk first = %v", i, d[0].split)
		}
	}
}

// TestUrgentMessagesGoBeyondTheWindow: a full window delays bulk, but a few datagrams of small messages are still
// sent.
func TestUrgentMessagesGoBeyondTheWindow(t *testing.T) {
	s := newSender(0)
	s.Congestion.InFlight = s.Congestion.Window
	s.enqueueOne(0, codec.Reliable, bulkSize, 0)
	for range 20 {
		s.enqueueOne(0, codec.Unreliable, 500, 0)
	}
	for _, d := range s.transmitAll(t, 0) {
		if d[0].split {
			t.Error("bulk goes beyond the window")
		}
	}
	if want := 20 - urgentLeeway - 1; s.small.size < want-1 || s.small.size > want+1 {
		t.Errorf("%d small messages wait, want about %d", s.small.size, want)
	}
}

// TestMegabyteOverALossyPath loses one datagram in twenty each way: such loss does not slow us down.
func TestMegabyteOverALossyPath(t *testing.T) {
	net, client, server := newSim(t, simnet.Weather{Latency: 25 * ms}, 0)
	net.SetWeather(simnet.Weather{Latency: 25 * ms, Loss: 0.05})
	for n := range 10 {
		start := net.Now()
		server.send(t, start, codec.Message{Payload: gamePayload(1_000_000), Mode: codec.ReliableOrdered})
		if !net.RunUntil(net.Elapsed()+time.Second, func() bool { return len(client.got) > n }) {
			t.Fatalf("megabyte %d is not there after a second", n+1)
		}
	}
}
