package proxy_test

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/proxy/relay"
)

// dialect is a Riptide version over TCP.
type dialect struct {
	name     string
	version  riptide.Version
	protocol codec.Protocol
	wide     bool
}

func (d dialect) transport() relay.Transport {
	prefix := netio.LengthU16LE
	if d.wide {
		prefix = netio.LengthI32LE
	}
	return relay.Transport{Stream: true, Prefix: prefix, MaxFrame: 1231}
}

var (
	riptide20 = dialect{"2.0", riptide.V20, riptide.New(riptide.Options{Version: riptide.V20, Stream: true}), false}
	riptide22 = dialect{"2.2", riptide.V22, riptide.New(riptide.Options{Version: riptide.V22, Stream: true}), true}
)

// streamWorld is a proxy between TCP clients and a TCP server of one dialect.
type streamWorld struct {
	*running
	t       *testing.T
	dialect dialect
	server  *streamServer
}

// eachStreamWorld runs a test with both dialects and every set of loops.
func eachStreamWorld(t *testing.T, test func(w *streamWorld)) {
	eachStreamWorldOf(t, []dialect{riptide20, riptide22}, test)
}

func eachStreamWorldOf(t *testing.T, dialects []dialect, test func(w *streamWorld)) {
	for _, b := range backends {
		for _, d := range dialects {
			t.Run(b.name+", "+d.name, func(t *testing.T) {
				t.Parallel()
				server := newStreamServer(t, d.protocol, d.wide)
				r := startWith(t, b.backend, b.loops, d.protocol, d.protocol, server.addr(), func(s *relay.Settings) {
					s.Listeners[0].Transport = d.transport()
					s.Listeners[0].Route.Upstream.Transport = d.transport()
					s.HandshakeTimeout = time.Second
				})
				test(&streamWorld{r, t, d, server})
			})
		}
	}
}

// join lets a client ask to join, and the server accept its stream.
func (w *streamWorld) join() (client, server *streamPeer) {
	w.t.Helper()
	client = dialStream(w.t, w.addr, w.dialect.wide)
	client.conn = w.dialect.protocol.Dial(time.Now(), w.addr, codec.Hello{})
	client.flush()
	return client, w.server.accept()
}

// connect is join, and then the server admits the client.
func (w *streamWorld) connect() (client, server *streamPeer) {
	w.t.Helper()
	client, server = w.join()
	server.conn.Admit(time.Now(), 7)
	server.flush()
	if got := client.await(codec.Connected, nil).Client; got != 7 {
		w.t.Errorf("the client is told that it is %d, want 7", got)
	}
	server.await(codec.Connected, nil)
	return client, server
}

// untilForgotten waits until the proxy has no session left.
func (w *streamWorld) untilForgotten() {
	w.t.Helper()
	await.Until(w.t, "rid of the session", func() bool { return len(w.running.server.Snapshot().Sessions) == 0 })
}

// burst sends a few reliable messages one way, which share segments and reads. It wants all of them to arrive.
func (w *streamWorld) burst(from, to *streamPeer, round uint16) {
	w.t.Helper()
	const size = 8 // each dialect sends more than this without an acknowledgement
	for i := range uint16(size) {
		m := codec.Message{Payload: []byte{1, byte(i)}, Mode: codec.Reliable, ID: round*size + i, HasID: true}
		if err := from.conn.Send(time.Now(), m); err != nil {
			w.t.Fatal(err)
		}
	}
	from.flush()
	for i := range uint16(size) {
		got := to.await(codec.Received, nil).Message
		if got.ID != round*size+i || len(got.Payload) != 2 || got.Payload[1] != byte(i) {
			w.t.Fatalf("message %d of round %d came as %+v", i, round, got)
		}
	}
}

func TestStreamsThroughTheProxy(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		client, server := w.connect()
		for round := range 10 {
			w.burst(client, server, uint16(round))
			w.burst(server, client, uint16(round))
		}
		client.conn.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
		client.flush()
		server.await(codec.Disconnected, nil)
		client.ends()
		w.untilForgotten()
	})
}

// TestStreamRefusalAndKick asserts that a server's refusal or kick reaches the client with its data. Then the stream
// ends.
func TestStreamRefusalAndKick(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		refused, server := w.join()
		server.conn.Close(time.Now(), codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("banned")})
		server.flush()
		_ = server.stream.Close() // as the library's server does
		if end := refused.await(codec.Disconnected, nil); end.Reason != codec.RejectedCustom ||
			string(end.Payload) != "banned" {
			w.t.Errorf("refused with %v %q", end.Reason, end.Payload)
		}
		refused.ends()

		kicked, server := w.connect()
		server.conn.Close(time.Now(), codec.Goodbye{Reason: codec.Kicked, Data: []byte("afk")})
		server.flush()
		_ = server.stream.Close()
		if end := kicked.await(codec.Disconnected, nil); end.Reason != codec.Kicked || string(end.Payload) != "afk" {
			w.t.Errorf("kicked with %v %q", end.Reason, end.Payload)
		}
		kicked.ends()
		w.untilForgotten()
	})
}

// TestClientStreamEnds asserts that the end of a client's stream, without a goodbye, reaches the server at once.
func TestClientStreamEnds(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		client, server := w.connect()
		started := time.Now()
		_ = client.stream.Close()
		server.await(codec.Disconnected, nil)
		if took := time.Since(started); took > 4*time.Second { // Riptide's own time-out is 5 s
			w.t.Errorf("told after %v", took)
		}
		server.ends()
		w.untilForgotten()
	})
}

// TestUpstreamStreamEnds asserts that the end of a server's stream reaches the client at once.
func TestUpstreamStreamEnds(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		client, server := w.connect()
		started := time.Now()
		_ = server.stream.Close()
		if end := client.await(codec.Disconnected, nil); end.Reason != codec.ServerStopped {
			w.t.Errorf("told %v, want server-stopped", end.Reason)
		}
		if took := time.Since(started); took > 4*time.Second {
			w.t.Errorf("told after %v", took)
		}
		client.ends()
		w.untilForgotten()
	})
}

func TestNobodyListensForStreamsUpstream(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		_ = w.server.listener.Close()
		client := dialStream(w.t, w.addr, w.dialect.wide)
		client.conn = w.dialect.protocol.Dial(time.Now(), w.addr, codec.Hello{})
		client.flush()
		if end := client.await(codec.Disconnected, nil); end.Reason != codec.NoConnection {
			w.t.Errorf("told %v, want no-connection", end.Reason)
		}
		client.ends()
	})
}
