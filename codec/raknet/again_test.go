package raknet_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// uploadRun is the result of a player's upload.
type uploadRun struct {
	heard int    // messages that the server has heard
	log   string // of the server's errors: each blocks an address
}

const uploadPause = 100 * time.Millisecond // between two messages of an upload

// upload sends messages to a go-raknet server with its defaults, until it blocks us. The line loses shares of the
// datagrams to both sides. Our client may be saved and restored at each input.
func upload(t *testing.T, l *line, toServer, toClient float64, size, uploads int, restores bool) (r uploadRun) {
	var log bytes.Buffer
	server, client := l.server(), l.client()
	listener, err := gork.ListenConfig{
		UpstreamPacketListener: server, ErrorLog: slog.New(slog.NewTextHandler(&log, nil)),
	}.Listen("")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for r.heard < uploads {
			if _, err := conn.(*gork.Conn).ReadPacket(); err != nil {
				return
			}
			r.heard++
			time.Sleep(time.Microsecond) // as in sendBulk
		}
	}()
	send := uploadFrom(t, client, restores)
	l.toServer.lose(toServer)
	l.toClient.lose(toClient)
	for range uploads {
		send(game(size))
		time.Sleep(uploadPause)
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	select {
	case <-done:
	case <-time.After(10 * time.Minute):
	}
	_ = listener.Close()
	time.Sleep(time.Minute) // go-raknet's goroutines end
	_, _ = client.Close(), server.Close()
	time.Sleep(10 * time.Second)
	l.close()
	r.log = log.String()
	return r
}

// uploadFrom starts our client at an end. It returns how to send a message.
func uploadFrom(t *testing.T, end *lineEnd, restores bool) func([]byte) {
	p := raknet.New(bedrock())
	g := &lineGame{
		t: t, end: end, protocol: p, calls: make(chan func(time.Time)), connected: make(chan struct{}),
		conn: p.Dial(time.Now(), lineServer, codec.Hello{}), restores: restores,
	}
	go g.run()
	<-g.connected
	return func(b []byte) {
		select {
		case g.calls <- func(now time.Time) {
			_ = g.conn.Send(now, codec.Message{Payload: b, Mode: codec.ReliableOrdered})
		}:
		case <-end.closed:
		}
	}
}

// TestPartsThatComeTwice sends split messages to a go-raknet server with its defaults over paths that lose datagrams of
// either direction. The server gets some parts twice, and blocks no address, also if an upgrade follows each input.
func TestPartsThatComeTwice(t *testing.T) {
	for _, path := range []struct {
		toServer, toClient float64
		size, uploads      int
		restores           bool
	}{
		{0.05, 0.05, 4_000, 600, false}, {0.10, 0.10, 4_000, 600, true}, {0, 0.5, 4_000, 600, false},
		{0.05, 0.05, 60_000, 200, false}, {0, 0.4, 120_000, 60, false},
	} {
		t.Run(fmt.Sprint(path), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(1, 0, 0, 0)
				r := upload(t, l, path.toServer, path.toClient, path.size, path.uploads, path.restores)
				if r.heard < path.uploads || r.log != "" {
					t.Errorf("the server has heard %d of %d messages: %s", r.heard, path.uploads, r.log)
				}
			})
		})
	}
}
