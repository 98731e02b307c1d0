package raknet

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestSendRefuses(t *testing.T) {
	l := newConnected(t, Options{MaxMessage: 1000, MaxQueued: 1500})
	for _, test := range []struct {
		what string
		m    codec.Message
		want error
	}{
		{"a mode it lacks", codec.Message{Payload: gamePayload(5), Mode: codec.Notify}, codec.ErrMode},
		{"an empty message", codec.Message{}, codec.ErrMode},
		{"a message that RakNet would swallow", codec.Message{Payload: []byte{idFirstUser - 1, 1}}, codec.ErrMode},
		{
			"an unknown channel", codec.Message{Payload: gamePayload(5), Mode: codec.ReliableOrdered, Channel: 32},
			codec.ErrMode,
		},
		{"a message too large", codec.Message{Payload: gamePayload(1001)}, codec.ErrTooLarge},
		{"the largest message", codec.Message{Payload: gamePayload(1000)}, nil},
		{"more than the queue holds", codec.Message{Payload: gamePayload(1000)}, codec.ErrFull},
		{"what the queue just holds", codec.Message{Payload: gamePayload(500 - 2*queueOverhead)}, nil},
		{"a byte more", codec.Message{Payload: gamePayload(1)}, codec.ErrFull},
	} {
		if err := l.client.Send(l.now, test.m); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.what, err, test.want)
		}
	}
	if err := l.client.Announce(l.now, codec.Joined, 1); !errors.Is(err, codec.ErrMode) {
		t.Errorf("Announce: %v, want ErrMode", err)
	}
}

func TestReceiveRefuses(t *testing.T) {
	l := newConnected(t, Options{})
	for _, datagram := range [][]byte{
		nil, {0x84}, {0x84, 0}, {0x84, 0, 0}, {0x15, 0, 0, 0}, {0xc0, 0xff, 0xff}, {0xa0, 0, 1, 0},
	} {
		if err := l.server.Receive(l.now, datagram); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("% x: %v, want ErrMalformed", datagram, err)
		}
	}
	dialling := newLink(t, Options{})
	goodbye := []byte{0x84, 0, 0, 0, 0x40, 0, 8, 0, 0, 0, 0x15}
	if err := dialling.client.Receive(l.now, goodbye); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("a datagram before the handshake: %v, want ErrUnexpected", err)
	}
}

// TestGiantSplitEndsTheConnection announces a message that could never be accepted.
func TestGiantSplitEndsTheConnection(t *testing.T) {
	l := newConnected(t, Options{})
	c := capsule{
		mode: codec.Reliable, reliable: l.client.sender.flight.Reliable, split: true, splitCount: 1 << 31,
		payload: gamePayload(8),
	}
	part := c.append(appendDataHeader(nil, l.client.sender.flight.next, false, false))
	_ = l.server.Receive(l.now, part)
	l.server.receiver.giant.GiantSince -= l.p.o.Timeout - 1
	_ = l.server.Receive(l.now, part)
	l.poll()
	if len(l.toServer) > 0 {
		t.Fatalf("parts may be forged, and the server saw %v", codectest.Kinds(l.toServer))
	}
	l.server.receiver.giant.GiantSince--
	_ = l.server.Receive(l.now, part)
	l.poll()
	if got := ending(t, l.toServer); got != codec.Violation {
		t.Errorf("ended as %v, want violation", got)
	}
}

// TestGiantOfAServer: a server's message that is too large ends the connection soon, over a path with losses too.
// Forged parts of one do not, neither beside a server that speaks nor with other numbers than the one that is due.
func TestGiantOfAServer(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, 100 * ms} {
		l := newLinkOf(t, New(Options{MaxAssembly: 1 << 20}))
		l.p = New(Options{MaxMessage: 4 << 20, MaxQueued: 8 << 20})
		connectOver(l, delay)
		n := 0
		l.drop = func(toServer bool, _ []byte) bool { n++; return n%10 == 0 }
		l.send(l.server, codec.ReliableOrdered, 3<<20, 0)
		for since := l.now; !has(l.toClient, codec.Disconnected); l.wait(10 * ms) {
			if l.now.Sub(since) > giantPatience+2*time.Second {
				t.Fatalf("delay %v: goes on for %v", delay, l.now.Sub(since))
			}
		}
		if got := ending(t, l.toClient); got != codec.Overflow {
			t.Errorf("ended as %v, want overflow", got)
		}
	}
	for _, ahead := range []int{0, 1} {
		l := newConnected(t, Options{})
		for range 40 {
			c := capsule{mode: codec.Reliable, reliable: l.client.receiver.reliable.base.Add(ahead), split: true,
				splitCount: 1 << 31, payload: gamePayload(8)}
			_ = l.client.Receive(l.now, c.append(appendDataHeader(nil, l.client.receiver.datagrams.next, false, false)))
			if ahead == 0 {
				l.send(l.server, codec.Reliable, 20, 0)
			}
			l.wait(100 * ms)
		}
		if has(l.toClient, codec.Disconnected) {
			t.Errorf("forged parts %d ahead ended the connection", ahead)
		}
	}
}

// TestOverdueMessageIsReported makes an unreliable message wait too long for the handshake.
func TestOverdueMessageIsReported(t *testing.T) {
	l := newLink(t, Options{})
	l.send(l.client, codec.Unreliable, 20, 9)
	l.wait(2 * queueLife)
	l.server.Admit(l.now, 1)
	l.wait(reportDelay)
	if n := len(l.toClient); n != 2 || l.toClient[1].Kind != codec.Lost || l.toClient[1].Receipt != 9 {
		t.Errorf("client saw %+v, want connected, lost", l.toClient)
	}
}

// TestLargeMessageOverALossyPath sends megabytes through a path that loses a tenth of all datagrams.
func TestLargeMessageOverALossyPath(t *testing.T) {
	l := newConnected(t, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	l.drop = func(bool, []byte) bool { return rng.IntN(10) == 0 }
	for range 3 {
		l.send(l.server, codec.ReliableOrdered, 1<<20, 0)
	}
	for range 1000 {
		l.wait(20 * ms)
	}
	for _, e := range l.toClient {
		if e.Kind != codec.Received || string(e.Payload) != string(gamePayload(1<<20)) {
			t.Errorf("client saw %v with %d bytes", e.Kind, len(e.Payload))
		}
	}
	if len(l.toClient) != 3 {
		t.Errorf("%d messages arrived, want 3", len(l.toClient))
	}
}

// TestSlowStartCarriesAMegabyte needs hardly more round trips than the doubling of the window.
func TestSlowStartCarriesAMegabyte(t *testing.T) {
	l := connectOver(newLink(t, Options{}), 25*ms)
	start := l.now
	l.send(l.server, codec.ReliableOrdered, 1<<20, 0)
	for len(l.toClient) == 0 {
		l.wait(ms)
	}
	// 733 parts in windows of 32, 64, 128, 256 and 512, and half a round trip for the last.
	if took := l.now.Sub(start); took > 6*50*ms {
		t.Errorf("1 MiB took %v over a round trip of 50 ms", took)
	}
}

// TestIdleConnectionIsSmall measures a connection's memory after its game has fallen silent. Other tests' garbage can
// only add to it, so the smallest of a few measurements counts.
func TestIdleConnectionIsSmall(t *testing.T) {
	const most = 2688 // with the prints of 180 messages; those of 1,024 take 4 KiB, and of unreliable ones as much
	each := idleBytes(t)
	for range 4 {
		if each <= most {
			break
		}
		each = min(each, idleBytes(t))
	}
	if each > most {
		t.Errorf("an idle connection takes %d bytes, want at most %d", each, most)
	}
	t.Logf("an idle connection takes %d bytes", each)
}

func idleBytes(t *testing.T) uint64 {
	const links = 100
	idle := make([][2]*Conn, links)
	p := New(Options{})
	before := heapInUse()
	for i := range idle {
		l := connect(t, newLinkOf(t, p))
		for range 20 {
			l.send(l.client, codec.ReliableOrdered, 1000, 0)
			l.send(l.server, codec.ReliableOrdered, 10_000, 0)
		}
		l.wait(12e9)
		idle[i] = [2]*Conn{l.client, l.server}
	}
	after := heapInUse()
	runtime.KeepAlive(idle)
	return (max(after, before) - before) / (2 * links)
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
