package scenario

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
)

// startNginx runs nginx's stream proxy with one worker, configured for UDP as in its documentation.
func startNginx(_ *Options, echo netip.AddrPort, dir string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	return subjectOf(process.StartNginx(dir, addr,
		fmt.Sprintf("server { listen %s udp rcvbuf=2m; proxy_pass %s; proxy_timeout 10m; }", addr, echo)))
}

// startEnvoy runs Envoy's UDP proxy with one worker. The bound of sessions is above its default of 1,024.
func startEnvoy(_ *Options, echo netip.AddrPort, dir string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	file, err := process.WriteFile(dir, "envoy.yaml", fmt.Sprintf(envoyConfig, addr.Addr(), addr.Port(), echo.Addr(),
		echo.Port()))
	if err != nil {
		return nil, err
	}
	return subjectOf(process.Start("envoy", addr, "envoy", "-c", file, "--concurrency", "1", "--disable-hot-restart",
		"--log-level", "error"))
}

const envoyConfig = `static_resources:
  listeners:
  - name: game
    address: {socket_address: {protocol: UDP, address: %v, port_value: %d}}
    listener_filters:
    - name: envoy.filters.udp_listener.udp_proxy
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
        stat_prefix: game
        idle_timeout: 600s
        matcher:
          on_no_match:
            action:
              name: route
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route
                cluster: game
  clusters:
  - name: game
    type: STATIC
    circuit_breakers: {thresholds: [{max_connections: 100000}]}
    load_assignment:
      cluster_name: game
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {protocol: UDP, address: %v, port_value: %d}}}
`

// startQuilkin runs Quilkin 0.10 with one worker and no filters. It refuses clients with a loopback address. So clients
// and a game server of its own are at another address of the machine.
func startQuilkin(*Options, netip.AddrPort, string) (*subject, error) {
	own, err := ownAddress()
	if err != nil {
		return nil, err
	}
	game, err := startEchoAt(own)
	if err != nil {
		return nil, err
	}
	addr, err := freeport.Find(own)
	if err != nil {
		game.stop()
		return nil, err
	}
	s, err := subjectOf(process.Start("quilkin", addr, "quilkin", "--admin.enabled=false", "--service.udp",
		fmt.Sprintf("--service.udp.port=%d", addr.Port()), "--service.udp.workers=1",
		fmt.Sprintf("--provider.static.endpoints=%v", game.addr())))
	if err != nil {
		game.stop()
		return nil, err
	}
	s.close = game.stop
	return s, nil
}

// ownAddress returns an IPv4 address of the machine that is no loopback address.
func ownAddress() (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, cmp.Or(err, errors.New("this machine has only loopback addresses"))
}

// startSocat runs socat, which forks for every client.
func startSocat(_ *Options, echo netip.AddrPort, _ string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	s, err := subjectOf(process.Start("socat", addr, "socat",
		fmt.Sprintf("UDP4-LISTEN:%d,bind=%v,fork,reuseaddr", addr.Port(), addr.Addr()), fmt.Sprintf("UDP4:%v", echo)))
	if err == nil {
		s.forks = true
	}
	return s, err
}

//go:embed peers/relay.c
var relayC []byte

// startC builds and runs the C program of the same design.
func startC(_ *Options, echo netip.AddrPort, dir string) (*subject, error) { return runC(echo, dir) }

// startClosingC is startC for clients that come and go. It keeps as many sockets as a proxy has sessions that end.
func startClosingC(_ *Options, echo netip.AddrPort, dir string) (*subject, error) {
	return runC(echo, dir, "4096")
}

func runC(echo netip.AddrPort, dir string, more ...string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "relay")
	cc := exec.Command("cc", "-O2", "-o", binary, "-xc", "-")
	cc.Stdin = bytes.NewReader(relayC)
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build relay.c: %w: %s", err, out)
	}
	command := append([]string{binary, fmt.Sprint(addr.Port()), fmt.Sprint(echo.Port())}, more...)
	return subjectOf(process.Start("relay.c", addr, command...))
}

//go:embed peers/traefik.go.txt
var traefikMain string

//go:embed peers/traefik.mod.txt
var traefikMod string

// startTraefik builds and runs Traefik's UDP proxy, its package pkg/udp, as its own server puts it together.
func startTraefik(_ *Options, echo netip.AddrPort, dir string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	source := filepath.Join(dir, "traefik")
	if err := os.Mkdir(source, 0o700); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"main.go": traefikMain, "go.mod": traefikMod} {
		if _, err := process.WriteFile(source, name, text); err != nil {
			return nil, err
		}
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "proxy", ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build traefik: %w: %s", err, out)
	}
	return subjectOf(process.Start("traefik", addr, filepath.Join(source, "proxy"), addr.String(), echo.String()))
}

// startKernelNAT lets nftables rewrite addresses with connection tracking: the kernel's own way.
func startKernelNAT(_ *Options, echo netip.AddrPort, dir string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	file, err := process.WriteFile(dir, "nat.nft", fmt.Sprintf(`table ip tidegate_bench {
	chain out {
		type nat hook output priority -100;
		ip daddr %v udp dport %d dnat to %v
	}
}
`, addr.Addr(), addr.Port(), echo))
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command("nft", "-f", file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("nft: %w: %s", err, out)
	}
	return &subject{Process: &process.Process{Name: "kernel-nat", Addr: addr}, close: func() {
		_ = exec.Command("nft", "delete", "table", "ip", "tidegate_bench").Run() // at worst the table is gone already
	}}, nil
}
