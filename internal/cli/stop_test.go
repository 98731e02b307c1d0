package cli

import (
	"bytes"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// echoes exchanges messages with a go-raknet echo server through the proxy until stop. It records the longest wait for
// an echo, and counts the echoes.
func echoes(conn *gork.Conn, stop <-chan struct{}, longest, count *atomic.Int64) error {
	answers, failed := make(chan []byte, 1), make(chan error, 1)
	go func() {
		for {
			b, err := conn.ReadPacket()
			if err != nil {
				failed <- err
				return
			}
			answers <- b
		}
	}()
	for i := byte(0); ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		began := time.Now()
		if _, err := conn.Write([]byte{0xfe, i}); err != nil {
			return err
		}
		select {
		case b := <-answers:
			if !bytes.Equal(b, []byte{0xfe, i}) {
				return os.ErrInvalid
			}
			longest.Store(max(longest.Load(), int64(time.Since(began))))
			count.Add(1)
		case err := <-failed:
			return err
		case <-time.After(await.Patience):
			return os.ErrDeadlineExceeded
		}
	}
}

// TestStopUnderLoad ends a process while a client sends messages. The client gets a goodbye, and the exit code is 0.
func TestStopUnderLoad(t *testing.T) {
	const clients = 16
	p := startProcess(t, bridgeConfig(echoServer(t)))
	stop := make(chan struct{})
	defer close(stop)
	conns := make([]*gork.Conn, clients)
	for i := range conns {
		conn, err := gork.DialTimeout(p.addr, await.Patience)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
		go func() { _ = echoes(conn, stop, new(atomic.Int64), new(atomic.Int64)) }() // until the goodbye
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for i, conn := range conns {
		select {
		case <-conn.Context().Done():
		case <-time.After(await.Patience):
			t.Errorf("client %d got no goodbye", i)
		}
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
