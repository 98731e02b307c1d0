package proxy_test

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// streamStats returns the totals of all loops.
func (w *streamWorld) streamStats() (sum netio.StreamStats) {
	for _, s := range w.running.server.Snapshot().Sockets {
		sum.BadFrames += s.Streams.BadFrames
		sum.Silent += s.Streams.Silent
		sum.Slow += s.Streams.Slow
	}
	return sum
}

// TestHostileStreams asserts that a stream that opens no session is closed, without harm to the players.
func TestHostileStreams(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		_, _ = w.connect()
		for _, c := range []struct {
			name string
			b    []byte
		}{
			{"a length of 0", make([]byte, 4)},
			{"a length beyond the largest", []byte{0xd0, 0x07, 0, 0}},
			{"a negative length", []byte{0xff, 0xff, 0xff, 0xff}},
			{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		} {
			p := dialStream(w.t, w.addr, w.dialect.wide)
			_, _ = p.stream.Write(c.b)
			p.ends()
		}
		if got := w.streamStats().BadFrames; got != 4 {
			w.t.Errorf("%d bad frames counted, want 4", got)
		}
		unknown := dialStream(w.t, w.addr, w.dialect.wide)
		unknown.write([]byte{0xff, 1, 2, 3})
		unknown.ends()
		silent := dialStream(w.t, w.addr, w.dialect.wide)
		silent.ends() // after the handshake time-out, which is a second here
		s := w.running.server.Snapshot()
		if s.Counters.Drops[stats.DropUnknownProtocol] != 1 || w.streamStats().Silent != 1 || len(s.Sessions) != 1 {
			w.t.Errorf("drops %v, silent %d, %d sessions", s.Counters.Drops, w.streamStats().Silent, len(s.Sessions))
		}
	})
}

// TestClientThatDoesNotRead asserts that the proxy gives up a client with too much in its queue. The server learns of
// it.
func TestClientThatDoesNotRead(t *testing.T) {
	// A client that does not read sends no heartbeats. On a busy machine it would be given up as silent before.
	var dialects []dialect
	for _, d := range []dialect{riptide20, riptide22} {
		d.protocol = riptide.New(riptide.Options{Version: d.version, Stream: true, TimeoutTime: 2 * patience})
		dialects = append(dialects, d)
	}
	eachStreamWorldOf(t, dialects, func(w *streamWorld) {
		_, server := w.connect()
		gone, reason := false, codec.ReasonNone
		for limit := time.Now().Add(patience); !gone && time.Now().Before(limit); {
			for range 200 {
				m := codec.Message{Payload: make([]byte, 1200), Mode: codec.Unreliable, ID: 1, HasID: true}
				_ = server.conn.Send(time.Now(), m) // the queue is full from time to time
			}
			server.flush()
			server.step()
			for ev, ok := server.conn.Poll(); ok; ev, ok = server.conn.Poll() {
				if ev.Kind == codec.Disconnected {
					gone, reason = true, ev.Reason
				}
			}
		}
		if !gone || w.streamStats().Slow != 1 {
			w.t.Errorf("server told: %v (%v); %d slow readers counted, want 1", gone, reason, w.streamStats().Slow)
		}
		w.untilForgotten()
	})
}

// TestFullProxyRefusesStreams asserts that a new client beyond the limit gets a refusal in its own protocol. Then its
// stream ends.
func TestFullProxyRefusesStreams(t *testing.T) {
	server := newStreamServer(t, riptide22.protocol, true)
	r := startWith(t, netio.Auto, 1, riptide22.protocol, riptide22.protocol, server.addr(), func(s *relay.Settings) {
		s.Listeners[0].Transport = riptide22.transport()
		s.Listeners[0].Route.Upstream.Transport = riptide22.transport()
		s.Limits.Sessions = 1
	})
	w := &streamWorld{r, t, riptide22, server}
	_, _ = w.connect()
	second := dialStream(t, r.addr, true)
	second.conn = riptide22.protocol.Dial(time.Now(), r.addr, codec.Hello{})
	second.flush()
	if end := second.await(codec.Disconnected, nil); end.Reason != codec.ServerFull {
		t.Errorf("refused with %v, want server-full", end.Reason)
	}
	second.ends()
}
