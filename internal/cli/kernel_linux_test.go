package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/kernel/flow"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
)

// kernelConfig relays all datagrams to a server on another network, with an admin server at a Unix socket.
const kernelConfig = `
[[listener]]
name = "play"
address = "0.0.0.0:7777"
protocols = ["any"]
route = "plain"
[[route]]
name = "plain"
mode = "relay"
upstream = "games"
[[upstream]]
name = "games"
protocol = "any"
servers = ["10.42.2.1:9000"]
[bans]
file = ""
[kernel]
xdp = ["front"]
`

// TestKernelForwards stops the process of a proxy, and its clients play on through the kernel. After a kill, the
// kernel keeps nothing of it.
func TestKernelForwards(t *testing.T) {
	clients, host, servers := netlab.New(t, "clients"), netlab.New(t, "host"), netlab.New(t, "servers")
	netlab.Cable(clients, "eth0", host, "front")
	netlab.Cable(servers, "eth0", host, "back")
	clients.Address("eth0", "10.42.1.1/24")
	host.Address("front", "10.42.1.2/24")
	host.Address("back", "10.42.2.2/24")
	servers.Address("eth0", "10.42.2.1/24")
	needFlows(t, host)
	answerAll(t, servers, "10.42.2.1:9000")
	var p *process
	host.Do(func() { p = startProcess(t, kernelConfig) })

	client := dialIn(t, clients, "10.42.1.2:7777")
	for _, text := range []string{"hello", "established", "by the kernel"} {
		wantEcho(t, client, text)
	}
	wantForwarded(t, p, client)
	metrics := metricsOf(t, p.admin)
	for _, want := range []string{
		`tidegate_kernel_forwarded_total{side="client"} 2`, `tidegate_kernel_forwarded_total{side="server"}`,
		`tidegate_datagrams_total{direction="in",side="client"} 4`,
		`tidegate_kernel_filtered_total{hook="socket",verdict="passed"} 2`,
		`tidegate_kernel_filtered_total{hook="interface",verdict="passed"} 4`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics have no %s:\n%s", want, ofKernel(metrics))
		}
	}
	wantCaptured(t, p, client)
	wantForwarded(t, p, client)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	await.Nil(t, func() error {
		err := echo(client, "after the end", 50*time.Millisecond)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil // the port is closed in the kernel
		}
		return fmt.Errorf("the client hears %v, want that its connection is refused", err)
	})
}

// wantForwarded lets a client play on while its proxy's process is stopped.
func wantForwarded(t *testing.T, p *process, client net.Conn) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, client, "without a proxy")
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// wantCaptured captures a session that the kernel forwards. The session returns to the proxy, and later to the kernel
// again.
func wantCaptured(t *testing.T, p *process, client net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relayed.pcapng")
	c := startCapture(t, p, "--route", "plain", "-o", path)
	wantEcho(t, client, "seen")
	await.Until(t, "captured on both sides and ways", func() bool {
		captured := readCapture(t, path)
		return len(captured) == 4 && !slices.ContainsFunc(slices.Collect(maps.Values(captured)), func(way []string) bool {
			return !slices.Equal(way, []string{"seen"})
		})
	})
	c.stop()
	<-c.ended
	p.await(t, "capture ended")
	for _, text := range []string{"perhaps in one turn with the end", "after the end"} {
		wantEcho(t, client, text)
	}
}

// needFlows skips the test if the kernel cannot forward.
func needFlows(t *testing.T, ns *netlab.Namespace) {
	t.Helper()
	var err error
	ns.Do(func() {
		var table *flow.Table
		if table, err = flow.New(flow.Options{}); err == nil {
			err = table.Close()
		}
	})
	if err != nil {
		t.Skip(err)
	}
}

// answerAll returns every datagram to its sender.
func answerAll(t *testing.T, ns *netlab.Namespace, addr string) {
	t.Helper()
	var conn *net.UDPConn
	var err error
	ns.Do(func() { conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr))) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for b := make([]byte, 2000); ; {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = conn.WriteToUDPAddrPort(b[:n], from) // the client may be gone
			}
		}
	}()
}

func dialIn(t *testing.T, ns *netlab.Namespace, to string) (conn net.Conn) {
	t.Helper()
	var err error
	ns.Do(func() { conn, err = net.Dial("udp", to) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func wantEcho(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if err := echo(conn, text, await.Patience); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// echo sends a text and waits until it returns.
func echo(conn net.Conn, text string, patience time.Duration) error {
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	b := make([]byte, 2000)
	n, err := conn.Read(b)
	if err == nil && string(b[:n]) != text {
		return errors.New("came back as " + string(b[:n]))
	}
	return err
}

// ofKernel returns the lines of metrics about the kernel.
func ofKernel(metrics string) (text string) {
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "tidegate_kernel") || strings.HasPrefix(line, "tidegate_datagrams") {
			text += line
		}
	}
	return text
}

// TestExplainedKernel checks the description of the dropping and forwarding parts, with reasons.
func TestExplainedKernel(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("what the kernel would do takes root to know")
	}
	code, out, _ := tidegate(t, "check", "--explain", "-c", write(t, kernelConfig))
	for _, want := range []string{
		"play (0.0.0.0:7777)\n  dropped in the kernel: banned networks; sources beyond 50000 datagrams a second; " +
			"strangers beyond what a loop can read\n",
		"  forwarded in the kernel, once a session is established\n", "front: XDP drops datagrams for these listeners",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d, %s\nwant %s", code, out, want)
		}
	}
	off := strings.Replace(kernelConfig, `xdp = ["front"]`, "filter = \"off\"\nforward = \"off\"", 1)
	code, out, _ = tidegate(t, "check", "--explain", "-c", write(t, off))
	for _, want := range []string{
		"  dropped in user space: off in the configuration\n", "  forwarded in user space: off in the configuration\n",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d, %s\nwant %s", code, out, want)
		}
	}
}

// metricsOf reads a process's metrics.
func metricsOf(t *testing.T, socket string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInterfaceIsTakenOver starts a proxy whose interface another proxy uses. It takes over the interface when the
// other one has ended or has handed its clients over.
func TestInterfaceIsTakenOver(t *testing.T) {
	if testing.Short() {
		t.Skip("it is only looked every few seconds")
	}
	for _, test := range []struct {
		what string
		end  os.Signal
	}{{"killed", os.Kill}, {"upgraded", syscall.SIGUSR2}} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			host, other := netlab.New(t, "host"), netlab.New(t, "other")
			netlab.Cable(host, "front", other, "eth0")
			needFlows(t, host)
			var first, second *process
			host.Do(func() { first = startProcess(t, kernelConfig) })
			if second = first; test.end == os.Kill {
				host.Do(func() { second = startProcess(t, strings.Replace(kernelConfig, ":7777", ":7778", 1)) })
			}
			if err := first.cmd.Process.Signal(test.end); err != nil {
				t.Fatal(err)
			}
			if test.end == syscall.SIGUSR2 {
				successor := int(first.await(t, "handed over; this process ends")["successor"].(float64))
				t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
			}
			if line := second.await(t, "XDP has changed"); line["interface"] != "front" || line["mode"] != "native" {
				t.Errorf("the log says %v", line)
			}
		})
	}
}
