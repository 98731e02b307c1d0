package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tidegate/codec"
	"tidegate/internal/each"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/words"
)

// Starter writes first configurations for clients of one protocol and a game server of one.
type Starter struct{ from, to end }

// end is the protocol of one side.
type end struct {
	name   string // with the suffix overTCP over TCP
	d      *registry.Descriptor
	spec   *codec.Spec
	stream bool
	edge   bool // Bedrock's NetherNet, beside its RakNet
}

const overTCP = "+tcp"

// ends lists every protocol, then every protocol with streams again over TCP, and NetherNet.
var ends = func() (all []end) {
	for _, d := range protocols.All {
		all = append(all, end{name: d.Name, d: d, spec: d.NewCalm(registry.Use{}).Spec()})
	}
	for _, d := range protocols.All {
		if d.Stream != nil {
			spec := d.NewCalm(registry.Use{Stream: true}).Spec()
			all = append(all, end{name: d.Name + overTCP, d: d, spec: spec, stream: true})
		}
	}
	edge := all[slices.IndexFunc(all, func(e end) bool { return e.name == "bedrock" })]
	edge.name, edge.edge = "nethernet", true
	return append(all, edge)
}()

// StarterNames returns the names that NewStarter takes, without aliases and versions.
func StarterNames() []string { return each.Of(ends, func(e end) string { return e.name }) }

// NewStarter finds two protocols by their names, aliases or versions, which may have the suffix "+tcp".
func NewStarter(from, to string) (s Starter, err error) {
	if s.from, err = endOf(from); err != nil {
		return s, fmt.Errorf("--from %w", err)
	}
	if s.to, err = endOf(to); err != nil {
		return s, fmt.Errorf("--to %w", err)
	}
	if (s.from.edge || s.to.edge) && s.from.d != s.to.d {
		return s, errors.New("NetherNet's other side is nethernet or bedrock")
	}
	return s, registry.ShareInputs(s.from.d, s.to.d)
}

func endOf(name string) (end, error) {
	if last := ends[len(ends)-1]; name == last.name {
		return last, nil
	}
	plain, stream := strings.CutSuffix(name, overTCP)
	d := protocols.Find(strings.ToLower(plain))
	if i := slices.IndexFunc(ends, func(e end) bool { return e.d == d && e.stream == stream }); i >= 0 {
		return ends[i], nil
	}
	if near, ok := words.Nearest(name, StarterNames()); ok {
		return end{}, fmt.Errorf("%q: want a known protocol; did you mean %q?", name, near)
	}
	return end{}, fmt.Errorf("%q: want one of %s", name, strings.Join(StarterNames(), ", "))
}

// Needed returns the text of tidegate.toml with clients at listen and one server, and with all that the two need.
func (p Starter) Needed(listen, server netip.AddrPort) string {
	return p.write(listen, []netip.AddrPort{server}, p.crossing())
}

// Usual is Needed with the settings that users usually want.
func (p Starter) Usual(listen, server netip.AddrPort) string {
	if p.from.edge && p.to.edge { // the players' identities stay valid, and a session costs less
		return p.Relay(listen, server)
	}
	return p.write(listen, []netip.AddrPort{server}, slices.Concat(p.crossing(), p.usual()))
}

// Relay is the configuration in which datagrams between clients and server pass unchanged. Both have one protocol.
func (p Starter) Relay(listen, server netip.AddrPort) string {
	return p.write(listen, []netip.AddrPort{server}, []setting{passing})
}

var passing = setting{`mode = "relay"`, "Datagrams pass unchanged."}

// Served is Needed with several servers, whose players move when one is lost, and an admin server.
func (p Starter) Served(listen, admin netip.AddrPort, servers []netip.AddrPort) string {
	hold := setting{`failover = "hold"`, "Players stay connected while a server is lost."}
	return p.write(listen, servers, append(p.crossing(), hold)) + fmt.Sprintf("\n[admin]\nlisten = %q\n", admin)
}

// write writes a configuration with settings of the route.
func (p Starter) write(listen netip.AddrPort, servers []netip.AddrPort, route []setting) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s players on a %s server.", p.from.name, p.to.name)
	line("[[listener]]")
	line("name = %q", "players")
	line("address = %q", listen)
	if p.from.edge {
		line(`protocols = ["bedrock", "nethernet"] # NetherNet's joins are at the TCP port with this number`)
		line("# Behind NAT or in a container: the address that players reach.")
		line(`# public_addresses = ["203.0.113.9"]`)
	} else {
		line("protocols = [%q]", p.from.d.Name)
	}
	if p.from.edge && !p.to.edge {
		line("# openssl ecparam -name secp384r1 -genkey -noout -out identity.pem")
		line("identity_key = %q", "identity.pem")
	}
	if p.from.stream {
		line("transport = %q", "tcp")
	}
	line("route = %q", "game")
	line("")
	line("[[route]]")
	line("name = %q", "game")
	line("upstream = %q", "game")
	for _, s := range route {
		line("# %s", s.why)
		line("%s", s.setting)
	}
	line("")
	line("[[upstream]]")
	line("name = %q", "game")
	line("protocol = %q", strings.TrimSuffix(p.to.name, overTCP))
	if p.to.stream {
		line("transport = %q", "tcp")
	}
	names := each.Of(servers, func(server netip.AddrPort) string { return strconv.Quote(server.String()) })
	line("servers = [%s]", strings.Join(names, ", "))
	if !p.to.spec.Closed && !p.to.pings() {
		line("# Only players find a dead server: remove the # for checks. The game sees each check come and go.")
		line(`# health = "connect"`)
	}
	if p.to.d.Table == "riptide" && !slices.Contains(route, passing) {
		line("")
		line("# If the server has a MessageRelayFilter, remove the #, and name its size: messages beyond it end the server.")
		line("# [riptide]")
		line("# relay_filter = 100")
	}
	return b.String()
}

// setting is a key of a route with its value, and the reason for it.
type setting struct{ setting, why string }

// crossing returns the route's settings for messages that one side cannot carry as the other does.
func (p Starter) crossing() []setting {
	const order = codec.Modes(1<<codec.ReliableOrdered | 1<<codec.UnreliableSequenced | 1<<codec.Notify)
	var all []setting
	switch {
	case p.from.spec.Closed != p.to.spec.Closed: // R-Type cannot keep the other side's promises
		all = append(all, setting{`allow_lossy = true`, "R-Type reports no losses and keeps no order."})
	case p.from.spec.Modes&order != p.to.spec.Modes&order:
		all = append(all, setting{`ordered = "fast"`, "Only one side keeps order."})
	}
	if p.from.isReliable() && p.to.reports() || p.to.isReliable() && p.from.reports() {
		all = append(all, setting{`reliable = "resend"`, "One side only reports losses."})
	}
	switch {
	case (p.from.spec.Joins || p.to.spec.Joins) && p.from.name != p.to.name:
		all = append(all, setting{`envelope = "framed"`, "RUDP joins messages."})
	case p.inWorld() && (p.from.spec.IDs == codec.IDBeside || p.to.spec.IDs == codec.IDBeside):
		all = append(all, setting{`envelope = "raw"`, "R-Type carries its own instructions only."})
	}
	return all
}

// usual returns settings of a route that the pair does not need, but its users usually want.
func (p Starter) usual() []setting {
	switch {
	case p.to.d.Name == "bedrock" && p.from.d.Name == "bedrock":
		return []setting{{`pong = "upstream"`, "Server lists show the server's own text."}}
	case p.to.name == "bedrock" && !p.inWorld():
		return []setting{{`# packet_id = 0xfe`,
			"Servers for Minecraft Bedrock drop messages with another first byte: remove the # for them."}}
	case p.to.spec.IDs == codec.IDFirstByte && p.from.spec.IDs != codec.IDFirstByte:
		return []setting{{`# packet_id = 0x86`,
			"The server sees this byte first in each message: remove the # to choose another one."}}
	}
	return nil
}

// inWorld reports whether messages are R-Type's.
func (p Starter) inWorld() bool { return p.from.spec.Closed || p.to.spec.Closed }

// pings reports whether servers answer a question without a join.
func (e end) pings() bool {
	_, pings := e.d.Default().(codec.Pinger)
	return pings
}

func (e end) isReliable() bool { return e.spec.Modes.AnyReliable() }

// reports returns whether the protocol only reports losses to the sender, without resending.
func (e end) reports() bool { return !e.isReliable() && e.spec.Modes.Has(codec.Notify) }

// StarterOfAny returns the configuration in which datagrams of any protocol pass unchanged.
func StarterOfAny(listen, server netip.AddrPort) string {
	return fmt.Sprintf(`# Datagrams of any protocol pass unchanged.
[[listener]]
name = "players"
address = %q
protocols = ["any"]
route = "game"

[[route]]
name = "game"
upstream = "game"
mode = "relay"

[[upstream]]
name = "game"
protocol = "any"
servers = [%q]
`, listen, server)
}
