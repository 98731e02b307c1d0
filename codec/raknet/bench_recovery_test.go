package raknet_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
)

// The path of these benchmarks: a round trip of 50 ms, and a loss of one datagram in twenty in each direction.
const (
	pathDelay = 25 * time.Millisecond
	pathLoss  = 0.05
)

var anyLoopback = netip.MustParseAddrPort(loopback4)

// download is a connection over a lossy path: a function that sends at the server, and one that receives at the
// client.
type download struct {
	send    func(payload []byte)
	receive func() (payload []byte)
}

// BenchmarkRecovery measures the cost of loss: ordered messages of a game's tick, and one of a megabyte, from a server
// to a client. Both ends are ours, or both go-raknet's, over the same path. Each iteration is one run. The figures
// describe its messages.
func BenchmarkRecovery(b *testing.B) {
	for _, peers := range []struct {
		name    string
		connect func(b *testing.B) download
	}{{"ours", connectOurs}, {"go-raknet", connectGork}} {
		b.Run("tick/"+peers.name, func(b *testing.B) { benchTick(b, peers.connect(b)) })
		b.Run("1MB/"+peers.name, func(b *testing.B) { benchLarge(b, peers.connect(b)) })
	}
}

// benchTick sends an ordered message of 100 bytes 60 times a second for 20 seconds.
func benchTick(b *testing.B, d download) {
	const messages = 1200
	var late []time.Duration
	for b.Loop() {
		start := time.Now()
		go func() {
			tick := time.NewTicker(time.Second / 60)
			defer tick.Stop()
			for range messages {
				<-tick.C
				payload := game(100)
				binary.BigEndian.PutUint64(payload[1:], uint64(time.Since(start)))
				d.send(payload)
			}
		}()
		for range messages {
			sent := binary.BigEndian.Uint64(d.receive()[1:])
			late = append(late, time.Since(start)-time.Duration(sent))
		}
	}
	report(b, late)
}

// benchLarge sends a message of a megabyte, ten times, each after the arrival of the last.
func benchLarge(b *testing.B, d download) {
	payload := game(1_000_000)
	var late []time.Duration
	for b.Loop() {
		for range 10 {
			start := time.Now()
			d.send(payload)
			d.receive()
			late = append(late, time.Since(start))
		}
	}
	report(b, late)
}

func report(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(late[len(late)/2]), "ms-median")
	b.ReportMetric(ms(late[len(late)*99/100]), "ms-p99")
}

func connectOurs(b *testing.B) download {
	server := listen(b, loopback4, bedrock())
	path := newLossyPath(b, server.addr(), pathDelay, pathLoss)
	client := dial(b, loopback4, bedrock(), path.address())
	server.want(b.Context(), codec.Connected)
	client.want(b.Context(), codec.Connected)
	path.losing.Store(true)
	return download{server.send, func() []byte { return client.want(b.Context(), codec.Received).Payload }}
}

func connectGork(b *testing.B) download {
	address, accepted := gorkServer(b, loopback4, gork.ListenConfig{})
	path := newLossyPath(b, address, pathDelay, pathLoss)
	client, err := gork.DialContext(b.Context(), path.address())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	server := <-accepted
	path.losing.Store(true)
	send := func(payload []byte) {
		if _, err := server.Write(payload); err != nil {
			b.Error(err)
		}
	}
	return download{send, func() []byte {
		payload, err := client.ReadPacket()
		if err != nil {
			b.Fatal(err)
		}
		return payload
	}}
}
