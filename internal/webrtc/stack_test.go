package webrtc

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/sctp"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/testkit/await"
)

// end is one end of a connection in memory: a codec.Conn above a stack, with a goroutine in place of a loop.
type end struct {
	conn    *nethernet.Conn
	stack   nethernet.Stack
	woken   chan struct{}
	deliver func([]byte) // to the other end

	mu     sync.Mutex
	got    [][]byte
	modes  []codec.Mode
	events []codec.Event
	quit   chan struct{}
}

func (e *end) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

func (e *end) run() {
	for {
		select {
		case <-e.quit:
			return
		case <-e.woken:
		}
		now := time.Now()
		e.mu.Lock()
		e.conn.Advance(now)
		for {
			ev, ok := e.conn.Poll()
			if !ok {
				break
			}
			switch ev.Kind {
			case codec.Asked:
				e.conn.Admit(now, 0)
			case codec.Received:
				e.got, e.modes = append(e.got, bytes.Clone(ev.Payload)), append(e.modes, ev.Mode)
			default:
				e.events = append(e.events, ev)
			}
		}
		var out [][]byte
		for {
			b, ok := e.conn.Transmit(now, nil)
			if !ok {
				break
			}
			out = append(out, b)
		}
		e.mu.Unlock()
		for _, b := range out {
			e.deliver(b)
		}
	}
}

func (e *end) receive(b []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.conn.Receive(time.Now(), b)
}

func (e *end) send(t *testing.T, payload []byte, mode codec.Mode) {
	t.Helper()
	await.Until(t, "the queue has room", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		err := e.conn.Send(time.Now(), codec.Message{Payload: payload, Mode: mode})
		if err != nil && !errors.Is(err, codec.ErrFull) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func (e *end) has(kind codec.EventKind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.events {
		if ev.Kind == kind {
			return true
		}
	}
	return false
}

func (e *end) received() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.got)
}

var hosts atomic.Int32

func newHost(t *testing.T, l Limits) *Host {
	t.Helper()
	h, err := NewHost(l, [32]byte{byte(hosts.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		await.Until(t, "all stacks have ended", func() bool { n, _ := h.Sizes(); return n == 0 })
	})
	return h
}

// connect joins two ends. lose drops the datagrams of some ends: 0 is the server, and 1 the client.
func connect(t *testing.T, h *Host, lose func(n int) bool, of ...int) (server, client *end) {
	t.Helper()
	p := &nethernet.Peer{Fingerprints: []nethernet.Fingerprint{h.Fingerprint()}, MaxMessageSize: nethernet.MaxFragment}
	return connectAs(t, h, p, lose, of...)
}

// connectAs is connect for ends that know this of each other.
func connectAs(t *testing.T, h *Host, p *nethernet.Peer, lose func(n int) bool, of ...int) (server, client *end) {
	t.Helper()
	var ends [2]*end
	for i := range ends {
		e := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
		var err error
		if i == 0 {
			e.stack, err = h.Accept(p, e.wake)
		} else {
			e.stack, err = h.Dial(p, e.wake)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.conn = nethernet.NewConn(e.stack, i == 1)
		ends[i] = e
	}
	for i, e := range ends {
		other, n := ends[1-i], 0
		e.deliver = func(b []byte) {
			if n++; !slices.Contains(of, i) || !lose(n) {
				other.receive(b)
			}
		}
		go e.run()
		e.wake()
		t.Cleanup(func() {
			e.stack.Abandon()
			close(e.quit)
		})
	}
	await.Until(t, "both ends are connected", func() bool {
		return ends[0].has(codec.Connected) && ends[1].has(codec.Connected)
	})
	return ends[0], ends[1]
}

func game(payload string) []byte { return append([]byte{0xfe}, payload...) }

// TestMessages lets messages pass in both directions, small and large, in order, also on a bad network.
func TestMessages(t *testing.T) {
	bad := func(n int) bool { return n > 20 && n%13 == 0 }
	for name, of := range map[string][]int{"good": nil, "bad": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := connect(t, newHost(t, DefaultLimits), bad, of...)
			for _, way := range [][2]*end{{client, server}, {server, client}} {
				for i := range 1000 {
					way[0].send(t, game(fmt.Sprintf("message %d", i)), codec.ReliableOrdered)
				}
				sizes := []int{1, 9_998, 9_999, 10_000, 262_143, 300_000, 2_000_000}
				if of != nil {
					sizes = sizes[:4]
				}
				for _, size := range sizes {
					way[0].send(t, append(game("large"), make([]byte, size)...), codec.ReliableOrdered)
				}
				await.Until(t, "all messages came", func() bool { return way[1].received() == 1000+len(sizes) })
				for i, got := range way[1].got[:1000] {
					want, mode := game(fmt.Sprintf("message %d", i)), way[1].modes[i]
					if !bytes.Equal(got, want) || mode != codec.ReliableOrdered {
						t.Fatalf("got %q %v, want %q", got, mode, want)
					}
				}
				for i, size := range sizes {
					if got := way[1].got[1000+i]; len(got) != size+6 {
						t.Errorf("%d bytes, want %d", len(got), size+6)
					}
				}
				way[0].mu.Lock()
				rtt := way[0].conn.Stats().RTT
				way[0].mu.Unlock()
				if rtt <= 0 || rtt > await.Patience {
					t.Errorf("the round trip takes %v", rtt)
				}
			}
		})
	}
}

// TestLossyHandshake loses each early datagram once, in both directions. What an end takes after its handshake must let
// the other end finish.
func TestLossyHandshake(t *testing.T) {
	h := newHost(t, DefaultLimits)
	for lost := range 16 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			server, client := connect(t, h, func(n int) bool { return n == lost/2+1 }, lost%2)
			for _, way := range [][2]*end{{server, client}, {client, server}} {
				way[0].send(t, game("here"), codec.ReliableOrdered)
				await.Until(t, "a message came", func() bool { return way[1].received() == 1 })
			}
		})
	}
}

// TestUnreliable sends a message on the other channel. One that is too large for it is refused.
func TestUnreliable(t *testing.T) {
	server, client := connect(t, newHost(t, DefaultLimits), nil)
	await.Until(t, "an unreliable message came", func() bool {
		client.send(t, game("perhaps"), codec.Unreliable)
		return server.received() > 0
	})
	server.mu.Lock()
	if !bytes.Equal(server.got[0], game("perhaps")) || server.modes[0] != codec.Unreliable {
		t.Errorf("%q %v", server.got[0], server.modes[0])
	}
	err := server.conn.Send(time.Now(), codec.Message{Payload: append(game(""), make([]byte, 20_000)...)})
	server.mu.Unlock()
	if !errors.Is(err, codec.ErrTooLarge) {
		t.Error(err)
	}
}

// TestClose says goodbye after a queued message and a text. The other end notices, and nothing stays.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	h := newHost(t, DefaultLimits)
	server, client := connect(t, h, nil)
	server.send(t, game("last"), codec.ReliableOrdered)
	server.mu.Lock()
	server.conn.Close(time.Now(), codec.Goodbye{Reason: codec.ServerStopped})
	server.mu.Unlock()
	await.Until(t, "both ends have ended", func() bool {
		return server.has(codec.Disconnected) && client.has(codec.Disconnected)
	})
	client.mu.Lock()
	got := client.got
	if len(got) != 2 || !bytes.Equal(got[0], game("last")) || !bytes.Contains(got[1], []byte("join again")) {
		t.Errorf("%q", got)
	}
	if why := client.events[len(client.events)-1].Reason; why != codec.Closed {
		t.Error(why)
	}
	client.mu.Unlock()
	await.Until(t, "no goroutine is left", func() bool {
		n, unopened := h.Sizes()
		return n == 0 && unopened == 0 && runtime.NumGoroutine() <= before+2+max(1, runtime.GOMAXPROCS(0)/2)
	})
}

// TestSlowPeer stops reading. The sender's queue has a bound, and no memory grows beyond it.
func TestSlowPeer(t *testing.T) {
	l := DefaultLimits
	l.Queue = 1 << 20
	server, client := connect(t, newHost(t, l), nil)
	client.stack.Pause(true)
	big, sent := append(game("big"), make([]byte, 100_000)...), 0
	await.Until(t, "the queue is full", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		for {
			if err := server.conn.Send(time.Now(), codec.Message{Payload: big, Mode: codec.ReliableOrdered}); err != nil {
				return errors.Is(err, codec.ErrFull) && server.conn.Stats().Queued > l.Queue-2*len(big)
			}
			sent++
		}
	})
	if sent > (l.Queue+mostBuffer+2*receiveWindow+2*l.MaxUnread)/len(big) {
		t.Errorf("%d messages were taken", sent)
	}
	client.stack.Pause(false)
	await.Until(t, "all messages came", func() bool { return client.received() == sent })
}

// TestWrongCertificate joins with another certificate than that of the description.
func TestWrongCertificate(t *testing.T) {
	h, other := newHost(t, DefaultLimits), newHost(t, DefaultLimits)
	fits := &nethernet.Peer{Fingerprints: []nethernet.Fingerprint{other.Fingerprint()}}
	wrong := &nethernet.Peer{Fingerprints: []nethernet.Fingerprint{h.Fingerprint()}}
	server := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
	client := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
	var err error
	if server.stack, err = h.Accept(wrong, server.wake); err != nil {
		t.Fatal(err)
	}
	if client.stack, err = other.Dial(fits, client.wake); err != nil {
		t.Fatal(err)
	}
	server.conn, client.conn = nethernet.NewConn(server.stack, false), nethernet.NewConn(client.stack, true)
	server.deliver, client.deliver = client.receive, server.receive
	for _, e := range []*end{server, client} {
		go e.run()
		t.Cleanup(func() {
			e.stack.Abandon()
			close(e.quit)
		})
	}
	await.Until(t, "the server has refused", func() bool { return server.has(codec.Disconnected) })
	if server.has(codec.Connected) || !errors.Is(server.conn.End().Err, errFingerprint) {
		t.Error(server.conn.End())
	}
}

// TestDialWaits dials a server that is slow to acknowledge the channels. Messages may not be sent before: such a server
// may lose them. An unreliable message of the server's does not hide an acknowledgement behind it.
func TestDialWaits(t *testing.T) {
	h, other := newHost(t, DefaultLimits), newHost(t, DefaultLimits)
	client := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
	dialed, err := h.Dial(&nethernet.Peer{Fingerprints: []nethernet.Fingerprint{other.Fingerprint()}}, client.wake)
	if err != nil {
		t.Fatal(err)
	}
	client.stack, client.conn = dialed, nethernet.NewConn(dialed, true)
	server := &end{woken: make(chan struct{}, 1), quit: make(chan struct{})}
	ours := other.certificates[other.fingerprint.Digest]
	peer := &stack{host: other, ours: ours, wake: server.wake, paused: true, peer: &nethernet.Peer{
		Fingerprints: []nethernet.Fingerprint{h.Fingerprint()}}}
	peer.wire.stack, peer.wire.arrived, peer.changed.L = peer, make(chan struct{}, 1), &peer.mu
	server.stack, server.conn = peer, nethernet.NewConn(peer, false)
	server.deliver, client.deliver = client.receive, server.receive
	for _, e := range []*end{server, client} {
		go e.run()
		t.Cleanup(func() { close(e.quit) })
	}
	t.Cleanup(dialed.Abandon)
	if err := peer.secure(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.wire.Close() })
	if err := peer.wire.handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := sctp.ClientContext(t.Context(), sctp.WithNetConn(&peer.wire), sctp.WithLoggerFactory(quiet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	var streams [2]*sctp.Stream
	for i := range streams {
		if streams[i], err = a.AcceptStream(); err != nil {
			t.Fatal(err)
		}
		if _, kind, err := streams[i].ReadSCTP(make([]byte, 100)); err != nil || kind != sctp.PayloadTypeWebRTCDCEP {
			t.Fatal(kind, err)
		}
	}
	const acknowledge = 2
	for n, stream := range streams {
		s := dialed.(*stack)
		s.mu.Lock()
		if s.out.Open {
			t.Error("open before the server's acknowledgement")
		}
		s.mu.Unlock()
		if n == 1 {
			stream.SetReliabilityParams(true, sctp.ReliabilityTypeRexmit, 0)
			if _, err := stream.WriteSCTP([]byte{0, 'x'}, sctp.PayloadTypeWebRTCBinary); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := stream.WriteSCTP([]byte{acknowledge}, sctp.PayloadTypeWebRTCDCEP); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the client is connected", func() bool { return client.has(codec.Connected) })
}

// TestBounds refuses stacks beyond the limits.
func TestBounds(t *testing.T) {
	l := DefaultLimits
	l.Unopened = 2
	h := newHost(t, l)
	p := &nethernet.Peer{Fingerprints: []nethernet.Fingerprint{h.Fingerprint()}}
	var all []nethernet.Stack
	for range 2 {
		s, err := h.Accept(p, func() {})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if _, err := h.Accept(p, func() {}); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	for range 2 * maxWaiting { // no peer answers, so they wait, up to the bound
		all[0].Datagram(record(22, 0))
	}
	for _, s := range all {
		s.Abandon()
	}
	await.Until(t, "the stacks have ended", func() bool { n, unopened := h.Sizes(); return n+unopened == 0 })
	s, err := h.Accept(p, func() {})
	if err != nil {
		t.Fatal(err)
	}
	s.Abandon()
}

// TestCost measures the memory and the goroutines of an open connection's end.
func TestCost(t *testing.T) {
	h := newHost(t, DefaultLimits)
	connect(t, h, nil)
	const n = 20
	heap, goroutines := measure()
	for range n {
		connect(t, h, nil)
	}
	await.Nil(t, func() error { // goroutines of the handshake may still be ending
		h2, g2 := measure()
		perEnd := (float64(h2) - float64(heap)) / n / 2 / 1024
		own := float64(g2-goroutines)/n/2 - 1 // the test's own
		t.Logf("%.1f KiB of heap and stacks, %.1f goroutines an end", perEnd, own)
		if perEnd > 90 || own > 6 {
			return errors.New("too much")
		}
		return nil
	})
}

func measure() (bytes uint64, goroutines int) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}

// TestSecondCertificate uses the certificate that the peer was told of, and no other.
func TestSecondCertificate(t *testing.T) {
	h := newHost(t, DefaultLimits)
	second, err := h.Certify([32]byte{1, 2, 3})
	if err != nil || second == h.Fingerprint() || !h.Has(second.Digest) || h.Has("AA:BB") {
		t.Fatal(second, err)
	}
	p := &nethernet.Peer{Fingerprints: []nethernet.Fingerprint{second}, Certificate: second.Digest}
	server, client := connectAs(t, h, p, nil)
	client.send(t, game("hello"), codec.ReliableOrdered)
	await.Until(t, "a message came", func() bool { return server.received() == 1 })
	p.Certificate = "AA:BB"
	if _, err := h.Accept(p, func() {}); !errors.Is(err, ErrCertificate) {
		t.Error(err)
	}
}

// TestCertificate asserts that a certificate follows from the secret alone: clients of the process before expect it.
func TestCertificate(t *testing.T) {
	var prints []nethernet.Fingerprint
	for _, secret := range [][32]byte{{1}, {1}, {2}} {
		h, err := NewHost(DefaultLimits, secret)
		if err != nil {
			t.Fatal(err)
		}
		prints = append(prints, h.Fingerprint())
	}
	if prints[0] != prints[1] || prints[0] == prints[2] {
		t.Errorf("%v", prints)
	}
}
