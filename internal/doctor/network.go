package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/setup"
)

// admin looks for a proxy at the admin address.
func (e *examination) admin() string {
	text, err := e.machine.Running(e.ctx)
	switch {
	case err != nil:
		e.problem(fmt.Sprintf("admin.listen = %q answers, but not as this configuration's proxy: %v", e.config.Admin.Listen,
			err), "another admin.listen, or end the other program")
		return "another program"
	case text == "":
		return "no proxy runs"
	}
	e.running = true
	if text != e.config.TOML() {
		e.advise("the running proxy has another configuration than this file",
			"tidegate reload, if it is the proxy of this file; otherwise give this one another admin.listen")
	}
	return "a proxy runs"
}

// maxPorts bounds the ports of one listener that are tried.
const maxPorts = 1000

// listeners tries to listen at each address.
func (e *examination) listeners() string {
	if e.running {
		return "in use by the running proxy"
	}
	for i := range e.config.Listeners {
		l := &e.config.Listeners[i]
		transports := []string{string(l.Transport)}
		if slices.Contains(l.Protocols, setup.Edge) {
			transports = append(transports, "tcp")
		}
		for n := range min(l.Address.Ports(), maxPorts) {
			addr := netip.AddrPortFrom(l.Address.Addr(), l.Address.Port()+uint16(n))
			for _, transport := range transports {
				if err := e.machine.Listen(transport, addr); err != nil {
					e.problem(fmt.Sprintf("listener %s: %s: %v", l.Name, transport, err), listenRemedy(transport, addr, err))
				}
			}
		}
	}
	return fmt.Sprintf("%d, all addresses tried", len(e.config.Listeners))
}

// joins looks at what NetherNet clients are told.
func (e *examination) joins() string {
	var all []string
	for i := range e.config.Listeners {
		l := &e.config.Listeners[i]
		if !slices.Contains(l.Protocols, setup.Edge) {
			continue
		}
		own, _ := e.machine.Addresses() // without them, only stated ones are judged
		told, doubt := setup.Told(l, own)
		if all = append(all, l.Name+": "+told); doubt != "" {
			e.advise(doubt, "the addresses that players reach; none if all players are in this network")
		}
	}
	return cmp.Or(strings.Join(all, "; "), "no listener for NetherNet")
}

func listenRemedy(transport string, addr netip.AddrPort, err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("end the program that has the port: ss -l%cnp 'sport = :%d' names it", transport[0], addr.Port())
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("an address of this machine: ip addr lists them; %s is none", addr.Addr())
	case errors.Is(err, os.ErrPermission):
		return "a port from 1024 on, or the capability CAP_NET_BIND_SERVICE"
	}
	return "an address and port that this machine can listen on"
}

// names looks up the places where servers are discovered.
func (e *examination) names() string {
	asked := 0
	for _, u := range e.config.Upstreams {
		if u.Kubernetes.On() || u.Agones.On() {
			asked++
			if err := e.machine.Cluster(e.ctx, &u); err != nil {
				e.problem(fmt.Sprintf("upstream %s: %v", u.Name, err),
					"correct the names, or give the account the rights of docs/recipes/kubernetes.md")
			}
		}
		for _, place := range u.Discover {
			asked++
			if place.File != "" {
				if _, err := e.machine.ReadFile(e.config.Path(place.File)); err != nil {
					e.problem(fmt.Sprintf("upstream %s: %v", u.Name, err), "write the file, or correct its name in discover")
				}
				continue
			}
			found, err := e.machine.Lookup(e.ctx, u.Resolver.AddrPort, place)
			if err == nil && len(found) == 0 {
				err = errors.New("no addresses")
			}
			if err != nil {
				e.problem(fmt.Sprintf("upstream %s: %s: %v", u.Name, place, err),
					"correct the name in discover, or resolver, or the DNS server of /etc/resolv.conf")
			}
		}
	}
	return fmt.Sprintf("%d looked up", asked)
}

// eachServer calls do for every server of the file, of a range of ports for the first one only.
func (e *examination) eachServer(do func(u *config.Upstream, addr netip.AddrPort)) (servers int) {
	for i := range e.config.Upstreams {
		u := &e.config.Upstreams[i]
		for _, s := range u.Servers {
			servers++
			do(u, s.Address.AddrPort)
		}
	}
	return servers
}

// largest returns the largest IP packet that Tidegate sends to the servers of an upstream, and its key. 0 means
// unknown.
func (e *examination) largest(u *config.Upstream) (bytes int, key string) {
	d := protocols.Find(u.Protocol)
	if d == nil {
		return 0, ""
	}
	switch o := u.Own.Over(e.config.Options).Of(d).(type) {
	case *protocols.RakNetSettings:
		return int(o.MaxMTU), d.Table + ".max_mtu"
	case *protocols.ENetSettings:
		return int(o.MTU) + 28, d.Table + ".mtu" // IPv4 and UDP headers
	}
	return 0, ""
}

// mtu compares the largest packets of protocols with the path to each server.
func (e *examination) mtu() string {
	smallest := 0
	servers := e.eachServer(func(u *config.Upstream, addr netip.AddrPort) {
		path, err := e.machine.PathMTU(addr)
		if err != nil || path <= 0 {
			return // the check of servers reports one without a route
		}
		if smallest == 0 || path < smallest {
			smallest = path
		}
		if most, key := e.largest(u); most > path {
			e.problem(fmt.Sprintf("upstream %s: the path to %s carries packets of %d bytes, and %s allows %d", u.Name, addr,
				path, key, most), fmt.Sprintf("%s = %d, or a larger MTU of the interface", key, path-(most-e.option(key, most))))
		}
	})
	if smallest == 0 {
		return unknown
	}
	return fmt.Sprintf("%d servers, packets of up to %d bytes", servers, smallest)
}

// option returns a key's value for a packet size: ENet's does not count headers.
func (e *examination) option(key string, packet int) int {
	if strings.HasPrefix(key, "enet.") {
		return packet - 28
	}
	return packet
}

// servers asks the servers of the file, each in its own protocol.
func (e *examination) servers() string {
	answered, unasked := 0, 0
	for _, a := range e.machine.Ask(e.ctx) {
		switch {
		case a.Fault != "":
			e.problem(fmt.Sprintf("upstream %s: %s: %s", a.Upstream, a.Server, a.Fault),
				"start the game server, or correct its address; a firewall between may drop UDP")
		case a.Asked:
			answered++
		default:
			unasked++
		}
	}
	if unasked > 0 {
		return fmt.Sprintf("%d answered; %d not asked, since their protocol has no question", answered, unasked)
	}
	return fmt.Sprintf("%d answered", answered)
}

// drops reads how many datagrams the kernel has dropped at the listeners' sockets and at the network card's queue.
func (e *examination) drops() string {
	lost, err := e.socketDrops()
	if err != nil {
		return unknown
	}
	if lost > 0 {
		e.advise(fmt.Sprintf("the kernel has dropped %d datagrams at the listeners' sockets since they were opened", lost),
			"raise loop.receive_buffer with net.core.rmem_max, or loop.count if a core is at its limit")
	}
	missed := 0
	if text, err := e.machine.ReadFile("/proc/net/softnet_stat"); err == nil {
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 {
				n, _ := strconv.ParseUint(fields[1], 16, 32) // a line that is no number counts as none
				missed += int(n)
			}
		}
	}
	if missed > 0 {
		e.advise(fmt.Sprintf("the kernel has dropped %d packets of any kind before their sockets since it started", missed),
			"sysctl -w net.core.netdev_max_backlog=5000, or more receive queues of the network card")
	}
	return fmt.Sprintf("%d at listeners, %d before sockets", lost, missed)
}

// socketDrops sums the drops of UDP sockets at the listeners' ports.
func (e *examination) socketDrops() (lost int, err error) {
	ports := make(map[uint64]bool)
	for i := range e.config.Listeners {
		a := e.config.Listeners[i].Address
		for n := range a.Ports() {
			ports[uint64(a.Port())+uint64(n)] = true
		}
	}
	for _, name := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		text, err := e.machine.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) && name == "/proc/net/udp6" {
			continue
		} else if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 13 {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err == nil && ports[port] {
				n, _ := strconv.Atoi(fields[12]) // of the heading no number
				lost += n
			}
		}
	}
	return lost, nil
}

// Lookup is the Machine.Lookup of real machines.
func Lookup(ctx context.Context, resolver netip.AddrPort, place config.Discover) (found []string, err error) {
	r := &net.Resolver{PreferGo: true}
	if resolver.IsValid() {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, resolver.String())
		}
	}
	if place.Service == "" {
		return r.LookupHost(ctx, place.Host)
	}
	_, records, err := r.LookupSRV(ctx, "", "", place.Service)
	for _, record := range records {
		found = append(found, record.Target)
	}
	return found, err
}
