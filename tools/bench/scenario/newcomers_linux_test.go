package scenario

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDeliveryShowsConnectedSockets asserts that the cost of a delivery shows the kernel's search among connected
// sockets at the listener's own address.
func TestDeliveryShowsConnectedSockets(t *testing.T) {
	const sockets = 3000
	runtime.LockOSThread() // its time counts
	defer runtime.UnlockOSThread()
	share := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}}
	listener, err := share.ListenPacket(context.Background(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	at := listener.LocalAddr().(*net.UDPAddr).AddrPort()
	delivery := func() float64 {
		var costs []float64
		for range newcomerRounds {
			cost, err := newcomer(at)
			if err != nil {
				t.Fatal(err)
			}
			costs = append(costs, cost)
			time.Sleep(newcomerPause)
		}
		return quartile(costs)
	}
	alone := delivery()
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(at), Control: share.Control}
	for i := range sockets {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}), 9)
		conn, err := dialer.Dial("udp4", to.String())
		if err != nil {
			t.Skip(err)
		}
		defer func() { _ = conn.Close() }()
	}
	beside := delivery()
	t.Logf("%.2f µs beside %d connected sockets, %.2f without", beside, sockets, alone)
	if beside < 2*alone {
		t.Error("the figure does not show the search")
	}
}
