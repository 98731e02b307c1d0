package raknet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
	_ "tidegate/internal/testkit/rakserver" // lets clients dial side by side
)

// These tests run our side against go-raknet, an independent implementation of the Bedrock dialect, over loopback.

// interopTime bounds each test. No test comes near it, even on a busy machine.
const interopTime = time.Minute

func bedrock() raknet.Options {
	return raknet.Options{Name: "bedrock", DialVersion: 11, GUID: 8, Pong: []byte("MCPE;ours"), SizedPong: true}
}

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), interopTime)
	t.Cleanup(cancel)
	return ctx
}

// eachPair runs f with either side in either role, with and without cookies.
func eachPair(t *testing.T, f func(ctx context.Context, t *testing.T, p pair)) {
	noCookies := bedrock()
	noCookies.Cookies = raknet.CookiesNone
	for _, c := range []struct {
		name string
		make func(ctx context.Context, t *testing.T) pair
	}{
		{"to its listener", func(ctx context.Context, t *testing.T) pair {
			return dialGork(ctx, t, loopback4, gork.ListenConfig{})
		}},
		{"to its listener without cookies", func(ctx context.Context, t *testing.T) pair {
			return dialGork(ctx, t, loopback4, gork.ListenConfig{DisableCookies: true})
		}},
		{"to its listener over IPv6", func(ctx context.Context, t *testing.T) pair {
			return dialGork(ctx, t, loopback6, gork.ListenConfig{})
		}},
		{"from its dialer", func(ctx context.Context, t *testing.T) pair {
			return dialedByGork(ctx, t, loopback4, bedrock())
		}},
		{"from its dialer without cookies", func(ctx context.Context, t *testing.T) pair {
			return dialedByGork(ctx, t, loopback4, noCookies)
		}},
		{"from its dialer over IPv6", func(ctx context.Context, t *testing.T) pair {
			return dialedByGork(ctx, t, loopback6, bedrock())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits: go-raknet acknowledges every 100 ms
			ctx := patience(t)
			f(ctx, t, c.make(ctx, t))
		})
	}
}

// game returns a message of a Bedrock game: its first byte, then noise.
func game(size int) []byte {
	b := make([]byte, size)
	noise := rand.NewChaCha8([32]byte{1})
	_, _ = noise.Read(b)
	b[0] = 0xfe
	return b
}

func TestInteropEcho(t *testing.T) {
	eachPair(t, func(ctx context.Context, t *testing.T, p pair) {
		for _, size := range []int{1, 2, 100, 1400, 1432, 1433, 5000} {
			echoOne(ctx, t, p, size)
		}
	})
}

// echoOne sends a message to go-raknet, which sends it back.
func echoOne(ctx context.Context, t *testing.T, p pair, size int) {
	t.Helper()
	want := game(size)
	p.ours.send(want)
	got := wantRead(ctx, t, p.theirs)
	if !bytes.Equal(got, want) {
		t.Fatalf("go-raknet got %d bytes, want %d", len(got), size)
	}
	if _, err := p.theirs.Write(got); err != nil {
		t.Fatal(err)
	}
	p.ours.wantMessage(ctx, want)
}

// TestInteropLarge transfers messages of many parts. go-raknet's listener accepts at most 512 parts, which is 500 kB;
// its dialer accepts any number.
func TestInteropLarge(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		make func(ctx context.Context, t *testing.T) pair
	}{
		{"to its listener", 500_000, func(ctx context.Context, t *testing.T) pair {
			return dialGork(ctx, t, loopback4, gork.ListenConfig{})
		}},
		{"from its dialer", 1_000_000, func(ctx context.Context, t *testing.T) pair {
			return dialedByGork(ctx, t, loopback4, bedrock())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits: go-raknet acknowledges every 100 ms
			ctx := patience(t)
			echoOne(ctx, t, c.make(ctx, t), c.size)
		})
	}
}

// TestInteropMany transfers many messages each way at once, and wants them in order.
func TestInteropMany(t *testing.T) {
	eachPair(t, func(ctx context.Context, t *testing.T, p pair) { echoMany(ctx, t, p, 3000) })
}

// TestInteropLossy does the same over a network that loses a tenth of all datagrams, after the connection is made.
// go-raknet cannot recover from an earlier loss.
func TestInteropLossy(t *testing.T) {
	eachPair(t, func(ctx context.Context, t *testing.T, p pair) {
		luck := rand.New(rand.NewPCG(1, 2))
		p.ours.do(func(time.Time) { p.ours.loses = func() bool { return luck.IntN(10) == 0 } })
		echoMany(ctx, t, p, 300)
	})
}

func echoMany(ctx context.Context, t *testing.T, p pair, count int) {
	message := func(i int) []byte { return binary.BigEndian.AppendUint32(game(60), uint32(i)) }
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		if err := echo(p.theirs, count); err != nil {
			cancel(fmt.Errorf("go-raknet's echo: %w", err))
		}
	}()
	for i := range count {
		p.ours.send(message(i))
	}
	for i := range count {
		p.ours.wantMessage(ctx, message(i))
	}
	<-echoed
}

func TestInteropClosedByUs(t *testing.T) {
	eachPair(t, func(ctx context.Context, t *testing.T, p pair) {
		p.ours.close()
		if got := p.ours.want(ctx, codec.Disconnected); got.Reason != codec.Closed {
			t.Errorf("disconnected for %v, want closed", got.Reason)
		}
		select {
		case <-p.theirs.Context().Done():
		case <-ctx.Done():
			t.Error("go-raknet does not notice")
		}
	})
}

func TestInteropClosedByThem(t *testing.T) {
	eachPair(t, func(ctx context.Context, t *testing.T, p pair) {
		if err := p.theirs.Close(); err != nil {
			t.Fatal(err)
		}
		if got := p.ours.want(ctx, codec.Disconnected); got.Reason != codec.Closed {
			t.Errorf("disconnected for %v, want closed", got.Reason)
		}
	})
}

func TestInteropPing(t *testing.T) {
	ours := listen(t, loopback4, bedrock())
	data, err := gork.PingContext(patience(t), ours.addr())
	if err != nil || string(data) != "MCPE;ours" {
		t.Errorf("go-raknet's ping of ours = %q, %v", data, err)
	}

	address, _ := gorkServer(t, loopback4, gork.ListenConfig{})
	socket, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := socket.SetDeadline(time.Now().Add(interopTime)); err != nil {
		t.Fatal(err)
	}
	if _, err := socket.Write(raknet.AppendPing(nil, 99, 7)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, codec.MaxDatagram)
	n, err := socket.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	pong, err := raknet.ParsePong(b[:n])
	if err != nil || pong.Time != 99 || string(pong.Data) != "MCPE;theirs" {
		t.Errorf("our ping of go-raknet's = %+v, %v", pong, err)
	}
}
