package netio

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// inNamespace is an environment variable: the test binary runs in a network namespace of its own.
const inNamespace = "TIDEGATE_TEST_NAMESPACE"

// TestRunsOnANarrowPath sends runs of datagrams larger than the MTU, in a network namespace whose loopback interface
// has a small one. The kernel refuses such runs, so the datagrams leave one by one, in fragments.
func TestRunsOnANarrowPath(t *testing.T) {
	if !namespaced(t) {
		return
	}
	const mtu = 1280
	raiseLoopback(t, mtu)
	p := newPollerWithRuns(t)
	sender := listen(t, p, SocketOptions{})
	conn, plain := plainSocket(t)
	want := sized(1400, 1400, 1400, 200, 200, 1400, 1400, 1300, 1300)
	for _, d := range want {
		p.Send(sender, plain, []byte(d))
	}
	p.Flush()
	if got := p.Stats(); got.Errors+got.TooLarge+got.WouldBlock != 0 || got.Out.Datagrams != uint64(len(want)) {
		t.Errorf("stats %+v", got)
	}
	if got := p.out.flight.largest; got >= 1400 || got < 200 {
		t.Errorf("runs of up to %d bytes a datagram are tried again, with an MTU of %d", got, mtu)
	}
	_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
	b := make([]byte, MaxDatagram)
	for i, d := range want {
		if n, err := conn.Read(b); err != nil || string(b[:n]) != d {
			t.Fatalf("datagram %d of %d bytes came as %d, %v", i, len(d), n, err)
		}
	}
}

// TestLocalPrefix gives sessions addresses of prefixes that only a route makes local.
func TestLocalPrefix(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	if !namespaced(t) {
		return
	}
	raiseLoopback(t, 65536)
	for text, server := range map[string]string{"10.77.0.0/16": "127.0.0.1:0", "fd00:77::/64": "[::1]:0"} {
		prefix := netip.MustParsePrefix(text)
		if err := CheckSources(prefix); err == nil {
			t.Errorf("%s is local before its route", prefix)
		}
		if out, err := exec.Command("ip", "route", "add", "local", text, "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := CheckSources(prefix); err != nil {
			t.Error(err)
		}
		p := newEpollPoller(t)
		s, err := p.Listen(netip.MustParseAddrPort(server), SocketOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e := newEchoing(p)
		for key := range uint64(3) {
			socket, err := p.Dial(s.Addr(), SocketOptions{Sources: prefix, SourceKey: 1000 * key})
			if err != nil {
				t.Fatal(err)
			}
			p.Send(socket, netip.AddrPort{}, []byte("hello"))
			p.Flush()
			e.until(t, "the echo", func() bool { return e.got[socket] == "hello" })
			if e.seen[socket.Addr()] != 1 || !prefix.Contains(socket.Addr().Addr()) {
				t.Errorf("the server saw %v, want %v", e.seen, socket.Addr())
			}
		}
	}
}

// namespaced runs the test again in a network namespace of its own, and reports whether this is that run.
func namespaced(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return true
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), inNamespace+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := command.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skipf("no network namespace: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// raiseLoopback brings the loopback interface up with an MTU.
func raiseLoopback(t *testing.T, mtu uint32) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint32(mtu)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, request); err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}
