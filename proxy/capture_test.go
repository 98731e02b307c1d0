package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/proxy"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/session"
)

// recorder captures a running proxy and keeps all datagrams.
type recorder struct {
	stop  context.CancelFunc
	ended chan error

	mu  sync.Mutex
	got []recording.Captured
}

// record begins a capture. It returns when all loops capture.
func record(t *testing.T, r *running, f recording.CaptureFilter) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := &recorder{stop: cancel, ended: make(chan error, 1)}
	begun := make(chan struct{}, 1)
	go func() {
		c.ended <- r.captures.Capture(ctx, f, func(catch *recording.Catch) error {
			c.keep(catch)
			select {
			case begun <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-c.ended:
		t.Fatalf("the capture ended at once: %v", err)
	case <-time.After(patience):
		t.Fatal("the capture did not begin")
	}
	return c
}

func (c *recorder) keep(catch *recording.Catch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range catch.Captured {
		one.Bytes = bytes.Clone(one.Bytes)
		c.got = append(c.got, one)
	}
}

// of returns the datagrams of one side and direction.
func (c *recorder) of(upstream, sent bool) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.got {
		if c.got[i].Upstream == upstream && c.got[i].Sent == sent {
			all = append(all, string(c.got[i].Bytes))
		}
	}
	return all
}

func (c *recorder) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-c.ended:
		if err != nil {
			t.Errorf("the capture ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the capture did not end")
	}
}

// TestCapture lets a Riptide player play on a RakNet server. The capture equals the sent and received datagrams of
// both, byte by byte, with their addresses.
func TestCapture(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			clients, servers := riptide.New(riptide.Options{}), raknet.New(raknet.Options{DialVersion: 6})
			socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = socket.Close() })
			server := &udpPeer{t: t, socket: socket}
			serverAddr := socket.LocalAddr().(*net.UDPAddr).AddrPort()
			r := start(t, b.backend, b.loops, clients, servers, serverAddr)
			c := record(t, r, recording.CaptureFilter{Client: netip.MustParsePrefix("127.0.0.0/8")})
			client := dialUDP(t, clients, r.addr)
			client.flush()
			server.meet(servers)
			client.await(codec.Connected)
			server.await(codec.Connected)
			for _, peer := range []*udpPeer{client, server} {
				message := codec.Message{Payload: []byte{0x86, 0, 7, 1, 2, 3}, Mode: codec.Reliable, HasID: peer == client, ID: 7}
				if err := peer.conn.Send(time.Now(), message); err != nil {
					t.Fatal(err)
				}
				peer.flush()
			}
			server.await(codec.Received)
			client.await(codec.Received)
			for _, end := range []struct {
				name     string
				peer     *udpPeer
				upstream bool
			}{{"client", client, false}, {"server", server, true}} {
				await.Until(t, "captured is all that the "+end.name+" sent", func() bool {
					return slices.Equal(c.of(end.upstream, false), end.peer.sent)
				})
				if sent := c.of(end.upstream, true); len(sent) < len(end.peer.heard) ||
					!slices.Equal(sent[:len(end.peer.heard)], end.peer.heard) {
					t.Errorf("captured towards the %s: %q; it heard %q", end.name, sent, end.peer.heard)
				}
			}
			c.stop()
			c.wait(t)
			client.conn.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
			client.flush()
			server.await(codec.Disconnected)
			c.check(t, client.socket.LocalAddr().(*net.UDPAddr).AddrPort(), r.addr, serverAddr)
		})
	}
}

// meet admits a RakNet player, whose handshake begins without a connection.
func (p *udpPeer) meet(protocol codec.Protocol) {
	p.t.Helper()
	for p.conn == nil {
		_ = p.socket.SetReadDeadline(time.Now().Add(patience))
		n, from, err := p.socket.ReadFromUDPAddrPort(p.buffer[:])
		if err != nil {
			p.t.Fatal(err)
		}
		p.heard = append(p.heard, string(p.buffer[:n]))
		p.to = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		conn, reply, err := protocol.Accept(time.Now(), p.to, p.buffer[:n], nil)
		if err != nil {
			p.t.Fatal(err)
		}
		if p.conn = conn; len(reply) > 0 {
			p.sent = append(p.sent, string(reply))
			_, _ = p.socket.WriteToUDPAddrPort(reply, p.to)
		}
	}
	p.await(codec.Asked)
	p.conn.Admit(time.Now(), 1)
	p.flush()
}

// check compares the captured datagrams with the addresses of both ends. All datagrams of a session have its ID once
// it exists.
func (c *recorder) check(t *testing.T, client, listener, server netip.AddrPort) {
	t.Helper()
	var session session.ID
	for i := range c.got {
		one := &c.got[i]
		ours, peer := one.To, one.From
		if one.Sent {
			ours, peer = peer, ours
		}
		want := client
		if one.Upstream {
			want = server
		}
		if peer != want || !one.Upstream && ours != listener || ours.Addr() != listener.Addr() || ours.Port() == 0 ||
			one.At.IsZero() || one.Stream {
			t.Errorf("captured %+v", one)
		}
		if session == 0 {
			session = one.Session
		}
		if one.Session != session || one.Upstream && session == 0 {
			t.Errorf("of session %v, after %v: %+v", one.Session, session, one)
		}
	}
}

// TestCaptureOfStreams asserts that a captured frame has its length before it.
func TestCaptureOfStreams(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		c := record(t, w.running, recording.CaptureFilter{Upstream: "arena"})
		w.join()
		await.Until(t, "captured on both sides and ways", func() bool {
			return len(c.of(false, false)) > 0 && len(c.of(false, true)) > 0 && len(c.of(true, false)) > 0 &&
				len(c.of(true, true)) > 0
		})
		c.stop()
		c.wait(t)
		for _, one := range c.got {
			size := int(one.Bytes[0])
			if w.dialect.wide {
				size += 2
			}
			if !one.Stream || size+2 != len(one.Bytes) {
				t.Errorf("captured %+v", one)
			}
		}
	})
}

// TestCaptureEndsWithItsSession also asserts errors for an unknown session, route or upstream.
func TestCaptureEndsWithItsSession(t *testing.T) {
	t.Parallel()
	patient := riptide.New(riptide.Options{})
	r := start(t, netio.Auto, 2, patient, patient, closedPort(t))
	for _, c := range []struct {
		filter recording.CaptureFilter
		want   error
	}{
		{recording.CaptureFilter{Session: 7}, relay.ErrNoSession},
		{recording.CaptureFilter{Route: "nowhere"}, proxy.ErrNoRoute},
		{recording.CaptureFilter{Upstream: "none"}, proxy.ErrNoUpstream},
	} {
		if err := r.captures.Capture(t.Context(), c.filter, nil); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.filter, err, c.want)
		}
	}
	server, _ := gorkServer(t)
	r = start(t, netio.Auto, 2, patient, bedrock(), server)
	client := dialUDP(t, patient, r.addr)
	client.await(codec.Connected)
	c := record(t, r, recording.CaptureFilter{Session: r.server.Snapshot().Sessions[0].ID})
	client.conn.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
	client.flush()
	c.wait(t)
	if got := c.of(false, false); !slices.Contains(got, client.sent[len(client.sent)-1]) {
		t.Errorf("of the session's end captured %q", got)
	}
}

// TestCapturesAreBounded asserts that the number of captures is limited. Each capture frees its place, and all end
// with the proxy.
func TestCapturesAreBounded(t *testing.T) {
	r := start(t, netio.Auto, 2, bedrock(), bedrock(), closedPort(t))
	var all []*recorder
	for range 4 {
		all = append(all, record(t, r, recording.CaptureFilter{}))
	}
	if err := r.captures.Capture(t.Context(), recording.CaptureFilter{}, nil); !errors.Is(err, captures.ErrCaptures) {
		t.Errorf("the fifth: %v", err)
	}
	all[0].stop()
	all[0].wait(t)
	all[0] = record(t, r, recording.CaptureFilter{})
	r.end(t)
	for _, c := range all {
		c.wait(t)
	}
}

// TestSlowCapture asserts that a slow reader delays no player, and learns how much it has missed.
func TestSlowCapture(t *testing.T) {
	r := start(t, netio.Auto, 1, bedrock(), bedrock(), closedPort(t))
	begun, proceed := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var kept, leftOut uint64
	go func() {
		first := true
		ended <- r.captures.Capture(ctx, recording.CaptureFilter{}, func(c *recording.Catch) error {
			if first {
				first = false
				close(begun)
				<-proceed
			}
			kept += uint64(len(c.Captured))
			leftOut += c.LeftOut.Clients
			return nil
		})
	}()
	<-begun
	noise, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(r.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer noise.Close()
	await.Until(t, "more has come than has room", func() bool {
		for range 200 {
			_, _ = noise.Write([]byte("nobody's")) // the proxy may lose some
		}
		return r.server.Snapshot().Counters.Clients.In.Messages > 9000
	})
	all := r.server.Snapshot().Counters.Clients.In.Messages
	close(proceed)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if leftOut == 0 || kept == 0 || kept+leftOut < all {
		t.Errorf("%d kept, %d left out, of %d", kept, leftOut, all)
	}
}
