package raknet

import (
	"strings"
	"testing"
	"time"

	"tidegate/codec"
)

// live connects our own two sides in virtual time, without a network between them, and leaves both at rest.
func live(t testing.TB) (client, server *replay) {
	t.Helper()
	p := peers{client: replayClient, server: replayServerAddr}
	client, server = newReplay(t), newReplay(t)
	listening := &serverReplay{replay: server, protocol: New(Options{}), peers: p}
	client.conn = New(Options{}).Dial(client.now, p.server, codec.Hello{Identity: 7})
	client.drain()
	for at := time.Duration(0); at < time.Second; at += 10 * time.Millisecond {
		client.runTo(at)
		server.runTo(at)
		for _, b := range takeSent(client) {
			if server.conn == nil {
				listening.accept(b)
			} else {
				_ = server.receive(b)
			}
		}
		for _, b := range takeSent(server) {
			_ = client.receive(b)
		}
	}
	if !client.connected || !server.connected {
		t.Fatal("our own two sides do not connect")
	}
	return client, server
}

func takeSent(r *replay) [][]byte {
	sent := r.sent
	r.sent = nil
	return sent
}

// TestTruncatedDatagrams truncates every captured datagram at every length. It gives the pieces to existing
// connections and to the server. Nothing panics, and no connection ends.
func TestTruncatedDatagrams(t *testing.T) {
	door := New(Options{})
	seen := map[string]bool{}
	for _, c := range captures(t) {
		for _, d := range c.Lines {
			if seen[d.Hex] || strings.Contains(d.What, "DISCONNECTION") || strings.Contains(d.What, "INVALID_PASSWORD") {
				continue // once is enough; a complete goodbye may end a connection
			}
			seen[d.Hex] = true
			client, server := live(t)
			for n := range d.Datagram {
				if testing.Short() && n > 64 && n%16 > 0 {
					continue // headers are shorter
				}
				piece := d.Datagram[:n]
				_ = client.receive(piece)
				_ = server.receive(piece)
				if !door.Sniff(piece) {
					continue
				}
				if conn, _, _ := door.Accept(replayStart, replayClient, piece, nil); conn != nil {
					t.Fatalf("%s: %d of %d bytes make a connection", c.Name, n, len(d.Datagram))
				}
			}
			wantAlive(t, client, c.Name, d)
			wantAlive(t, server, c.Name, d)
		}
	}
}

func wantAlive(t *testing.T, r *replay, name string, d captured) {
	t.Helper()
	if r.over {
		t.Fatalf("%s: pieces of %s %s ended the connection for %v", name, d.From, d.What, r.reason)
	}
	if err := r.conn.Send(r.now, codec.Message{Payload: []byte{0xfe}, Mode: codec.ReliableOrdered}); err != nil {
		t.Fatalf("%s: Send after pieces of %s: %v", name, d.What, err)
	}
}
