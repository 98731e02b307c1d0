package proxy_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/relay"
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

// TestReloadOfManyPortsUnderLoad adds 3,000 listeners while players of an independent client talk, and removes them.
// No session ends. The log has the longest turn, and the longest wait of a player.
func TestReloadOfManyPortsUnderLoad(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one address of loopback")
	}
	server, _ := gorkServer(t)
	r := start(t, netio.Epoll, 2, bedrock(), bedrock(), server)
	stop, longest := make(chan struct{}), make([]time.Duration, 8)
	var talking sync.WaitGroup
	for i := range longest {
		conn, err := gork.DialTimeout(r.addr.String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		talking.Go(func() {
			if err := talkWith(conn, stop, func(took time.Duration) { longest[i] = max(longest[i], took) }); err != nil {
				t.Errorf("player %d: %v", i, err)
			}
		})
	}
	many := *r.settings
	for i := range 3000 {
		more := r.settings.Listeners[0]
		more.Addr = netip.AddrPortFrom(netip.MustParseAddr("127.9.0.1"), uint16(20_000+i))
		many.Listeners = append(many.Listeners, more)
	}
	for _, s := range []*relay.Settings{&many, r.settings} {
		began := time.Now()
		if err := r.server.Reload(s); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d listeners after %v", len(s.Listeners), time.Since(began))
	}
	await.Until(t, "the ports are free", func() bool {
		last, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(many.Listeners[3000].Addr))
		if err == nil {
			_ = last.Close()
		}
		return err == nil
	})
	close(stop)
	talking.Wait()
	figures, err := r.server.Figures(t.Context())
	if err != nil || figures.Counters.Closed != 0 {
		t.Errorf("%d sessions ended, %v", figures.Counters.Closed, err)
	}
	t.Logf("longest turns %v, longest wait of a player %v", figures.Longest, slices.Max(longest))
}
