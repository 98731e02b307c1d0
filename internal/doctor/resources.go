package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/internal/setup"
)

// spare is the number of descriptors beside those of sessions: listeners, eBPF maps, files and operators.
const spare = 64

// ownSocket reports whether each session of an upstream has a socket of its own.
func ownSocket(u *config.Upstream) bool { return !u.SourcePrefix().IsValid() && !u.SharesSockets() }

// descriptors compares limits.sessions with the descriptors of this process.
func (e *examination) descriptors() string {
	allowed := e.machine.Descriptors()
	if allowed == 0 {
		return unknown
	}
	need := spare
	if slices.ContainsFunc(e.config.Upstreams, func(u config.Upstream) bool { return ownSocket(&u) }) {
		need += e.config.Limits.Sessions
	}
	if allowed < uint64(need) {
		e.problem(fmt.Sprintf("%d descriptors are allowed, but limits.sessions = %d needs %d", allowed,
			e.config.Limits.Sessions, need),
			fmt.Sprintf("ulimit -n %d, or LimitNOFILE=%[1]d in the systemd unit, or a lower limits.sessions", need))
	}
	return fmt.Sprintf("%d allowed, %d needed", allowed, need)
}

// ports compares limits.sessions with the ports that the kernel gives to sockets towards servers.
func (e *examination) ports() string {
	numbers, err := e.numbers("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil || len(numbers) < 2 {
		return unknown
	}
	have := numbers[1] - numbers[0] + 1
	for i := range e.config.Upstreams {
		u := &e.config.Upstreams[i]
		sources := max(1, len(u.Sources))
		if ownSocket(u) && !u.Transparent() && have*sources < e.config.Limits.Sessions {
			e.problem(fmt.Sprintf("upstream %s: %d local ports, on %d of this machine's addresses, are fewer than "+
				"limits.sessions = %d", u.Name, have, sources, e.config.Limits.Sessions),
				`sysctl -w net.ipv4.ip_local_port_range="1024 65535", or more addresses in sources, or a prefix`)
		}
	}
	return fmt.Sprintf("%d for each address", have)
}

// buffers compares the configured receive buffers with the kernel's.
func (e *examination) buffers() string {
	e.findings = append(e.findings, e.machine.Shortfalls()...)
	return "loop.receive_buffer"
}

// tracking compares limits.sessions with the kernel's table of connections, which also has UDP. A full table drops
// datagrams.
func (e *examination) tracking() string {
	most, err := e.numbers("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil || len(most) == 0 {
		return "the kernel tracks no connections"
	}
	used, err := e.numbers("/proc/sys/net/netfilter/nf_conntrack_count")
	if err != nil || len(used) == 0 {
		return unknown
	}
	need := 2 * e.config.Limits.Sessions // each session has a flow on both sides
	if most[0] < need {
		e.advise(fmt.Sprintf("the kernel tracks at most %d connections, and %d sessions take up to %d", most[0],
			e.config.Limits.Sessions, need),
			fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d, or no tracking (notrack) of the game's ports", 2*need))
	}
	return fmt.Sprintf("%d of %d connections", used[0], most[0])
}

// kernel reports the kernel features that cannot be used, with the reasons.
func (e *examination) kernel() string {
	filter, forward := e.machine.Kernel()
	const remedy = "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; " +
		"or set kernel.filter and kernel.forward to \"off\" to accept it"
	if e.config.Kernel.Filter != config.KernelOff && filter != nil {
		e.advise(fmt.Sprintf("the kernel drops no banned or flooding sources: %v", filter), remedy)
	}
	relays := false
	for i := range e.config.Routes {
		relays = relays || e.config.Routes[i].Mode.Is(policy.ModeRelay)
	}
	if relays && e.config.Kernel.Forward != config.KernelOff && forward != nil {
		e.advise(fmt.Sprintf("the kernel forwards no relayed sessions: %v", forward), remedy)
	}
	return "eBPF filters, and forwarding of relayed sessions"
}

// modules reports modules that cannot be compiled.
func (e *examination) modules() string {
	if why := e.machine.Interpreted(); why != "" {
		e.advise("modules are interpreted, 10 to 50 times slower: "+why, setup.CompileRemedy)
	}
	return "WebAssembly of routes"
}

// sources reports why the sources of upstreams cannot be used.
func (e *examination) sources() string {
	if err := e.machine.Sources(); err != nil {
		e.problem(err.Error(), "docs/operate/addresses.md has the commands for routes and rights")
	}
	return "sources of upstreams"
}

// clock reports a clock that follows no time server. Bans and logs use it.
func (e *examination) clock() string {
	off, known := e.machine.ClockOff()
	if !known {
		return unknown
	}
	if off {
		e.advise("the clock follows no time server: bans and logs of several machines disagree",
			"run a time service, for example: timedatectl set-ntp true")
		return "not synchronised"
	}
	return "synchronised"
}

// numbers returns the numbers in a file.
func (e *examination) numbers(name string) (all []int, err error) {
	text, err := e.machine.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for field := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
