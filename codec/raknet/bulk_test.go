package raknet_test

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	gork "github.com/sandertv/go-raknet"
)

// The bulk of these tests: the chunks of a Minecraft world.
const (
	bulkMessages = 600
	bulkLength   = 14_000
)

// bulkRun is the result of one transfer.
type bulkRun struct {
	took       time.Duration // until the last message has arrived
	sent, lost int           // datagrams to the client
	resent     uint64        // messages and parts
	err        error         // of the client's connection
}

// sendBulk sends the bulk at once to a client on go-raknet, which acknowledges each 100 ms. The server is ours, or
// go-raknet's.
func sendBulk(t *testing.T, l *line, ours bool) (r bulkRun) {
	server := l.server()
	start := bulkFromGork
	if ours {
		start = bulkFromOurs
	}
	from := start(t, server)
	client := l.client()
	conn, err := gork.Dialer{UpstreamDialer: client}.DialContext(t.Context(), lineServer.String())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	l.lose()
	began := time.Now()
	go func() {
		for range bulkMessages {
			from.write(game(bulkLength))
		}
	}()
	for range bulkMessages {
		if _, r.err = conn.ReadPacket(); r.err != nil {
			break
		}
		// A reader that empties go-raknet's queue just as the receiving goroutine makes it larger stops both for ever.
		time.Sleep(time.Microsecond) // until the other goroutines wait
	}
	r.took, r.resent = time.Since(began), from.resent()
	r.sent, r.lost = l.toClient.counts()
	_ = conn.Close()
	from.close()
	time.Sleep(10 * time.Second) // go-raknet's goroutines end
	_, _ = client.Close(), server.Close()
	time.Sleep(10 * time.Second)
	l.close()
	return r
}

// bulkServer is a server of one client.
type bulkServer struct {
	write  func([]byte)
	resent func() uint64
	close  func()
}

func bulkFromOurs(t *testing.T, end *lineEnd) bulkServer {
	o := bedrock()
	o.MaxQueued = 2 * bulkMessages * bulkLength
	g := startLineGame(t, end, o)
	return bulkServer{
		write: g.send, resent: func() uint64 { return g.stats().Resent }, close: func() {},
	}
}

func bulkFromGork(t *testing.T, end *lineEnd) bulkServer {
	listener, err := gork.ListenConfig{UpstreamPacketListener: end}.Listen("")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := listener.Accept()
		accepted <- conn
	}()
	var conn net.Conn
	return bulkServer{
		write: func(b []byte) {
			if conn == nil {
				conn = <-accepted
			}
			_, _ = conn.Write(b) // the client's connection shows the error
		},
		resent: func() uint64 { return 0 }, // it does not count
		close:  func() { _, _ = conn.Close(), listener.Close() },
	}
}

// TestBulkUnderLoss sends the chunks of a world to a client that acknowledges each 100 ms, over a round trip of 50 ms.
// Neither random losses nor lost ACKs slow the sender down for long. On a narrow path little more is lost.
func TestBulkUnderLoss(t *testing.T) {
	for _, path := range []struct {
		loss     float64
		rate     int
		most     time.Duration // about twice what it takes
		mostLost float64       // share
	}{
		{0, 0, 4 * time.Second, 0},
		{0.01, 0, 6 * time.Second, 0.02},
		{0.05, 0, 7 * time.Second, 0.07},
		{0.10, 0, 10 * time.Second, 0.12},
		{0.05, 2_500_000, 11 * time.Second, 0.12},
		{0.05, 500_000, 50 * time.Second, 0.12},
	} {
		t.Run(fmt.Sprintf("%.0f%%/%d", 100*path.loss, path.rate), func(t *testing.T) {
			for seed := range uint64(3) {
				synctest.Test(t, func(t *testing.T) {
					r := sendBulk(t, newLine(seed, path.loss, path.rate, 256<<10), true)
					if share := float64(r.lost) / float64(r.sent); r.err != nil || r.took > path.most || share > path.mostLost {
						t.Errorf("took %v, want at most %v; %d of %d datagrams lost; %v", r.took, path.most, r.lost, r.sent, r.err)
					}
					t.Logf("took %v: %d datagrams, %d lost, %d parts resent", r.took, r.sent, r.lost, r.resent)
				})
			}
		})
	}
}

// TestBulkFromGorkUnderLoss shows what go-raknet's server does on the same paths. It sends everything at once, and so
// loses its client on a narrow one.
func TestBulkFromGorkUnderLoss(t *testing.T) {
	for _, path := range []struct {
		loss float64
		rate int
	}{{0, 0}, {0.01, 0}, {0.05, 0}, {0.10, 0}, {0.05, 2_500_000}} {
		synctest.Test(t, func(t *testing.T) {
			r := sendBulk(t, newLine(1, path.loss, path.rate, 256<<10), false)
			if lost := r.err != nil; lost != (path.rate > 0) {
				t.Errorf("loss %.0f%%, rate %d: after %v: %v", 100*path.loss, path.rate, r.took, r.err)
			}
			t.Logf("loss %.0f%%, rate %d: took %v: %d datagrams, %d lost", 100*path.loss, path.rate, r.took, r.sent, r.lost)
		})
	}
}
