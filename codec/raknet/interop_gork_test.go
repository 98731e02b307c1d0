package raknet_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// gorkServer is a go-raknet listener that returns the one connection it accepts.
func gorkServer(t testing.TB, at string, conf gork.ListenConfig) (address string, accepted chan *gork.Conn) {
	l, err := conf.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	l.PongData([]byte("MCPE;theirs"))
	accepted = make(chan *gork.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted <- conn.(*gork.Conn)
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), accepted
}

// pair is a connection between our side and go-raknet's.
type pair struct {
	ours   *endpoint
	theirs *gork.Conn
}

func dialGork(ctx context.Context, t *testing.T, at string, conf gork.ListenConfig) pair {
	address, accepted := gorkServer(t, at, conf)
	ours := dial(t, at, bedrock(), address)
	ours.want(ctx, codec.Connected)
	select {
	case theirs := <-accepted:
		return pair{ours, theirs}
	case <-ctx.Done():
		t.Fatal("go-raknet accepts no connection")
		return pair{}
	}
}

// gorkDials serializes go-raknet's dials: they share a map without a lock.
var gorkDials sync.Mutex

func dialedByGork(ctx context.Context, t *testing.T, at string, o raknet.Options) pair {
	ours := listen(t, at, o)
	gorkDials.Lock()
	theirs, err := gork.DialContext(ctx, ours.addr())
	gorkDials.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	ours.want(ctx, codec.Connected)
	return pair{ours, theirs}
}

// echo makes go-raknet send count messages back.
func echo(conn *gork.Conn, count int) error {
	for range count {
		b, err := conn.ReadPacket()
		if err != nil {
			return err
		}
		if _, err := conn.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// wantRead reads a message from go-raknet's side, which has no deadlines.
func wantRead(ctx context.Context, t *testing.T, conn *gork.Conn) []byte {
	t.Helper()
	type result struct {
		b   []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		b, err := conn.ReadPacket()
		read <- result{bytes.Clone(b), err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			t.Fatalf("go-raknet reads: %v", r.err)
		}
		return r.b
	case <-ctx.Done():
		t.Fatal("go-raknet reads nothing")
		return nil
	}
}
