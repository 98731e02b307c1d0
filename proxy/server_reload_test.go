package proxy_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/freeport"
)

// TestReloadUnderLoad reloads a hundred times while players of an independent client talk. Every second reload adds a
// listener. No session ends, and no message is lost.
func TestReloadUnderLoad(t *testing.T) {
	const players, reloads = 8, 100
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			server, _ := gorkServer(t)
			r := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			stop := make(chan struct{})
			var talking sync.WaitGroup
			for i := range players {
				conn, err := gork.DialTimeout(r.addr.String(), patience)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				talking.Go(func() {
					if err := talk(conn, stop); err != nil {
						t.Errorf("player %d: %v", i, err)
					}
				})
			}
			for i := range reloads {
				s := *r.settings
				s.Limits.Sessions += i
				if i%2 == 0 {
					more := s.Listeners[0]
					more.Name, more.Addr = "more", freeport.Loopback(t)
					s.Listeners = append(s.Listeners[:1:1], more)
				}
				if err := r.server.Reload(&s); err != nil {
					t.Fatalf("reload %d: %v", i, err)
				}
			}
			close(stop)
			talking.Wait()
			if got := r.server.Snapshot(); got.Counters.Closed != 0 || len(got.Sessions) != players {
				t.Errorf("%d sessions ended, %d are left of %d", got.Counters.Closed, len(got.Sessions), players)
			}
		})
	}
}

// talk sends numbered messages until stop, at least a hundred, and wants their echoes in order.
func talk(conn *gork.Conn, stop <-chan struct{}) error {
	return talkWith(conn, stop, func(time.Duration) {})
}

// talkWith is talk, and calls took with the time of each answer.
func talkWith(conn *gork.Conn, stop <-chan struct{}, took func(time.Duration)) error {
	for i := uint32(0); ; i++ {
		select {
		case <-stop:
			if i >= 100 {
				return nil
			}
		default:
		}
		began := time.Now()
		message := binary.LittleEndian.AppendUint32([]byte{0xfe}, i)
		if _, err := conn.Write(message); err != nil {
			return err
		}
		got, err := readWithin(conn, patience)
		if err != nil || string(got) != string(message) {
			return fmt.Errorf("message %d came back as %x: %w", i, got, err)
		}
		took(time.Since(began))
	}
}

// TestReloadIsAllOrNothing asserts that no listener opens if one of them cannot, and that the settings stay.
func TestReloadIsAllOrNothing(t *testing.T) {
	taken, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			server, _ := gorkServer(t)
			r := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			good, bad := r.settings.Listeners[0], r.settings.Listeners[0]
			good.Name, good.Addr = "good", freeport.Loopback(t)
			bad.Name, bad.Addr = "bad", taken.LocalAddr().(*net.UDPAddr).AddrPort()
			s := *r.settings
			s.Listeners = append(s.Listeners[:1:1], good, bad)
			if err := r.server.Reload(&s); err == nil {
				t.Fatal("no error")
			}
			if len(r.server.Addrs()) != 1 {
				t.Errorf("listening on %v", r.server.Addrs())
			}
			again, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(good.Addr))
			if err != nil {
				t.Errorf("the listener that could be opened is still there: %v", err)
			} else {
				_ = again.Close()
			}
			if _, err := gork.Ping(r.addr.String()); err != nil {
				t.Errorf("the old listener does not answer: %v", err)
			}
		})
	}
}

// TestReloadAfterTheEnd asserts that a reload of a stopped proxy is an error.
func TestReloadAfterTheEnd(t *testing.T) {
	r := start(t, netio.Auto, 1, bedrock(), bedrock(), anyPort)
	r.end(t)
	if err := r.server.Reload(r.settings); err == nil {
		t.Error("no error")
	}
}
