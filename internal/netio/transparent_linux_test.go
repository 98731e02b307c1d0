package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// The transparent test has a proxy's machine and a server's, connected by a cable. Players are in neither.
const (
	proxyHere  = "10.99.0.1"
	serverHere = "10.99.0.2"
)

// machines makes two network namespaces, or skips the test.
func machines(t *testing.T) (proxy, server string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	proxy, server = fmt.Sprintf("tgp%d", os.Getpid()), fmt.Sprintf("tgs%d", os.Getpid())
	for i, name := range []string{proxy, server} {
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			if i > 0 {
				t.Fatalf("ip netns add: %s", out)
			}
			t.Skipf("no network namespaces here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	}
	for _, line := range []string{
		"ip link add cable netns P type veth peer name cable netns S",
		"ip -n P addr add " + proxyHere + "/24 dev cable", "ip -n P -6 addr add fd99::1/64 dev cable nodad",
		"ip -n P link set cable up", "ip -n P link set lo up",
		"ip -n S addr add " + serverHere + "/24 dev cable", "ip -n S -6 addr add fd99::2/64 dev cable nodad",
		"ip -n S link set cable up", "ip -n S link set lo up",
		"ip -n S route add default via " + proxyHere, "ip -n S -6 route add default via fd99::1",
		// docs/operate/addresses.md#transparent-mode
		"ip -n P rule add iif cable from " + serverHere + " lookup 100",
		"ip -n P route add local default dev lo table 100",
		"ip -n P -6 rule add iif cable from fd99::2 lookup 100",
		"ip -n P -6 route add local default dev lo table 100",
	} {
		words := strings.Fields(line)
		for i, w := range words {
			switch w {
			case "P":
				words[i] = proxy
			case "S":
				words[i] = server
			}
		}
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", line, out)
		}
	}
	return proxy, server
}

// inside calls f on a thread in a network namespace. The sockets that it opens stay there.
func inside(t *testing.T, name string, f func() error) {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := unix.Open("/run/netns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(ns, unix.CLONE_NEWNET)
			_ = unix.Close(ns)
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// TestTransparent checks that a server sees players by their own addresses, and that its answers return to their
// sockets.
func TestTransparent(t *testing.T) {
	here, there := machines(t)
	for _, family := range []struct{ server, player, other string }{
		{serverHere + ":0", "203.0.113.7:5000", "203.0.113.8:5000"},
		{"[fd99::2]:0", "[2001:db8::7]:5000", "[2001:db8::8]:5000"},
	} {
		t.Run(family.player, func(t *testing.T) {
			var server *net.UDPConn
			inside(t, there, func() (err error) {
				server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(family.server)))
				return err
			})
			defer func() { _ = server.Close() }()
			to := server.LocalAddr().(*net.UDPAddr).AddrPort()
			var p Poller
			inside(t, here, func() (err error) { p, err = New(Options{Backend: Epoll}); return err })
			defer func() { _ = p.Close() }()
			for _, text := range []string{family.player, family.other} {
				player := netip.MustParseAddrPort(text)
				var s Socket
				inside(t, here, func() (err error) {
					if s, err = p.Dial(to, SocketOptions{TransparentSource: player}); err != nil {
						return err
					}
					again, err := p.Dial(netip.AddrPortFrom(to.Addr(), 9), SocketOptions{TransparentSource: player})
					if err == nil {
						again.Close()
					}
					return err
				})
				var b [64]byte
				var n int
				var from netip.AddrPort
				err := os.ErrDeadlineExceeded
				for limit := time.Now().Add(await.Patience); err != nil && time.Now().Before(limit); {
					p.Send(s, to, []byte("hello")) // again, if the kernel has not found its neighbor yet
					p.Flush()
					_ = server.SetReadDeadline(time.Now().Add(time.Second))
					for n, from, err = server.ReadFromUDPAddrPort(b[:]); from != player && from.String() == family.player; {
						n, from, err = server.ReadFromUDPAddrPort(b[:]) // a repeated one of the first player
					}
				}
				if err != nil || from != player || string(b[:n]) != "hello" {
					t.Fatalf("the server got %q from %v, %v; want it from %v", b[:n], from, err, player)
				}
				if _, err := server.WriteToUDPAddrPort([]byte("hey "+text), from); err != nil {
					t.Fatal(err)
				}
				heard := &answers{}
				for limit := time.Now().Add(await.Patience); len(heard.texts) == 0; {
					if time.Now().After(limit) {
						t.Fatal("the answer did not come back")
					}
					if err := p.Wait(limit); err != nil {
						t.Fatal(err)
					}
					p.Receive(heard)
				}
				if heard.texts[0] != "hey "+text || heard.sockets[0] != s {
					t.Errorf("the answer: %q", heard.texts)
				}
			}
			_, err := p.Dial(to, SocketOptions{TransparentSource: netip.MustParseAddrPort("198.51.100.1:1")})
			if to.Addr().Is6() && !errors.Is(err, ErrAddress) {
				t.Errorf("an IPv4 player at an IPv6 server: %v", err)
			}
		})
	}
}

// TestTransparentWithoutPrivilege checks that the error names the missing capability.
func TestTransparentWithoutPrivilege(t *testing.T) {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread drops its capabilities and ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			result <- err
			return
		}
		result <- CheckTransparent()
	}()
	if err := <-result; !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("err = %v", err)
	}
}

// answers is a Handler that keeps its input.
type answers struct {
	texts   []string
	sockets []Socket
}

func (a *answers) Datagram(s Socket, _ netip.AddrPort, datagram []byte) {
	a.texts, a.sockets = append(a.texts, string(datagram)), append(a.sockets, s)
}

func (*answers) Failed(Socket, error) {}

func TestPortableIsNotTransparent(t *testing.T) {
	p, err := New(Options{Backend: Portable})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	_, err = p.Dial(netip.MustParseAddrPort("127.0.0.1:9"),
		SocketOptions{TransparentSource: netip.MustParseAddrPort("203.0.113.7:5000")})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("err = %v", err)
	}
}
