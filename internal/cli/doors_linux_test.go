package cli

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// doorsConfig has every TCP port that a process can have.
const doorsConfig = `
[[listener]]
name = "stream"
transport = "tcp"
address = "127.0.0.1:0"
protocols = ["riptide-2.2"]
route = "arena"
[[listener]]
name = "joins"
address = "127.0.0.1:0"
protocols = ["nethernet"]
route = "joins"
[[route]]
name = "joins"
upstream = "joins"
mode = "relay"
[[upstream]]
name = "joins"
protocol = "bedrock"
servers = ["127.0.0.1:9"]
health = "off"
[admin]
listen = "127.0.0.1:%d"
token = "0123456789abcdef"
[fleet]
node = "one"
listen = "127.0.0.1:%[2]d"
peers = ["127.0.0.1:%[2]d", "127.0.0.1:1", "127.0.0.1:2"]
secret = "0123456789abcdef"
`

// TestStrangersAtEveryTCPPort opens 10,000 connections to each TCP port of a process with 4,096 descriptors, and sends
// nothing. All the time players join, and the health check answers. The test finds the ports in the kernel: one that
// has no bound fails it.
func TestStrangersAtEveryTCPPort(t *testing.T) {
	p := newProcess(t, os.Args[0], write(t, ""))
	p.rewrite(t, bridgeConfig(echoServer(t))+fmt.Sprintf(doorsConfig, freeTCP(t), freeTCP(t)))
	p.cmd.Args = append([]string{"/bin/sh", "-c", `ulimit -n 4096; exec "$@"`, "sh"}, p.cmd.Args...)
	p.cmd.Path = "/bin/sh"
	t.Setenv("TIDEGATE_ADMIN_TOKEN", "0123456789abcdef")
	p.start(t)
	p.addr = p.await(t, "listening")["address"].(string)
	p.await(t, "tidegate is running")
	var ports []uint16
	await.Until(t, "all ports", func() bool {
		ports = listeningPorts(t, p.cmd.Process.Pid)
		return len(ports) == 6 // players, NetherNet's joins, admin, other nodes, NATS's two of its own
	})
	before := resident(t, p.cmd.Process.Pid)
	for _, port := range ports {
		held := strangers(t, port, 10_000)
		for range 20 {
			_ = p.plays(t).Close()
		}
		await.Until(t, "healthy", func() bool { // a question among the last strangers may be closed with them
			code, _, _ := separately(t, "health", "-c", p.file)
			return code == 0
		})
		used, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		more := resident(t, p.cmd.Process.Pid) - before
		t.Logf("port %d: %d strangers, %d descriptors in use, %d MiB more", port, len(held), len(used), more>>20)
		if len(used) > 4096/4 || more > 128<<20 { // with garbage of joins
			t.Errorf("port %d: %d of 4096 descriptors are in use, %d bytes", port, len(used), more)
		}
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	}
}

// freeTCP returns a free port of loopback.
func freeTCP(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	must(t, err)
	return name.(*unix.SockaddrInet4).Port
}

// strangers opens connections, or as many as this process may have, without a word.
func strangers(t *testing.T, port uint16, most int) (held []int) {
	t.Helper()
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	for len(held) < min(most, int(limit.Cur)-500) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must(t, err)
		held = append(held, fd)
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)})
		if err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return held
}

// listeningPorts returns the TCP ports at which a process listens.
func listeningPorts(t *testing.T, pid int) (ports []uint16) {
	t.Helper()
	own := make(map[string]bool)
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.Open("/proc/net/" + name)
		must(t, err)
		defer table.Close()
		for lines := bufio.NewScanner(table); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" || !own[fields[9]] { // TCP_LISTEN
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			must(t, err)
			ports = append(ports, uint16(port))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ports)))
}

// resident returns the memory of a process in bytes.
func resident(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	must(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize())
}
