package demo

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tidegate/codec"
)

// Configuration returns the text of tidegate.toml for the pair, with clients at listen and one server.
func (p Pair) Configuration(listen, server netip.AddrPort) string {
	return p.write(listen, server, p.crossing())
}

// Starter is Configuration for the first configuration of a user: with all that the pair needs, and the settings
// that its users usually want.
func (p Pair) Starter(listen, server netip.AddrPort) string {
	return p.write(listen, server, slices.Concat(p.crossing(), p.usual()))
}

// Relay is the configuration in which datagrams between clients and server pass unchanged. The pair has one protocol.
func (p Pair) Relay(listen, server netip.AddrPort) string {
	return p.write(listen, server, []setting{{`mode = "relay"`, "Datagrams pass unchanged."}})
}

// Served is the configuration of Serve: several servers whose players move when one is lost, and an admin server.
func (p Pair) Served(listen, admin netip.AddrPort, servers []netip.AddrPort) string {
	hold := setting{`failover = "hold"`, "Players stay connected while a server is lost."}
	return p.writeAll(listen, servers, append(p.crossing(), hold)) + fmt.Sprintf("\n[admin]\nlisten = %q\n", admin)
}

// write writes a configuration with settings of the route.
func (p Pair) write(listen, server netip.AddrPort, route []setting) string {
	return p.writeAll(listen, []netip.AddrPort{server}, route)
}

// writeAll is write with several servers.
func (p Pair) writeAll(listen netip.AddrPort, servers []netip.AddrPort, route []setting) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s players on a %s server.", p.From(), p.To())
	line("[[listener]]")
	line("name = %q", "players")
	line("address = %q", listen)
	line("protocols = [%q]", plainName(p.from))
	if isStream(p.from) {
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
	line("protocol = %q", plainName(p.to))
	if isStream(p.to) {
		line("transport = %q", "tcp")
	}
	names := make([]string, len(servers))
	for i, server := range servers {
		names[i] = strconv.Quote(server.String())
	}
	line("servers = [%s]", strings.Join(names, ", "))
	return b.String()
}

// plainName returns a protocol's name without its transport.
func plainName(p codec.Protocol) string { return strings.TrimSuffix(p.Spec().Name, overTCP) }

// setting is a key of a route with its value, and the reason for it.
type setting struct{ setting, why string }

// crossing returns the route's settings for messages that one side cannot carry as the other does.
func (p Pair) crossing() []setting {
	var all []setting
	switch {
	case p.isLossy():
		all = append(all, setting{`allow_lossy = true`, "R-Type reports no losses and keeps no order."})
	case p.losesOrder():
		all = append(all, setting{`ordered = "fast"`, "Only one side keeps order."})
	}
	if p.needsResend() {
		all = append(all, setting{`reliable = "resend"`, "One side only reports losses."})
	}
	switch {
	case p.isFramed() && p.from != p.to:
		all = append(all, setting{`envelope = "framed"`, "RUDP joins messages."})
	case p.isRaw():
		all = append(all, setting{`envelope = "raw"`, "R-Type carries its own instructions only."})
	}
	return all
}

// usual returns settings of a route that the pair does not need, but its users usually want.
func (p Pair) usual() []setting {
	switch {
	case p.to.Spec().Name == protocolBedrock && p.from.Spec().Name == protocolBedrock:
		return []setting{{`pong = "upstream"`, "Server lists show the server's own text."}}
	case p.to.Spec().Name == protocolBedrock && !p.inWorld():
		return []setting{{`# packet_id = 0xfe`,
			"Servers for Minecraft Bedrock drop messages with another first byte: remove the # for them."}}
	case p.to.Spec().IDs == codec.IDFirstByte && p.from.Spec().IDs != codec.IDFirstByte:
		return []setting{{`# packet_id = 0x86`,
			"The server sees this byte first in each message: remove the # to choose another one."}}
	}
	return nil
}

// isLossy reports whether one side is R-Type and the other is not: R-Type cannot keep the other's promises.
func (p Pair) isLossy() bool { return p.from.Spec().Closed != p.to.Spec().Closed }

// losesOrder reports whether one side keeps an order that the other does not keep.
func (p Pair) losesOrder() bool {
	const order = codec.Modes(1<<codec.ReliableOrdered | 1<<codec.UnreliableSequenced | 1<<codec.Notify)
	return p.from.Spec().Modes&order != p.to.Spec().Modes&order
}

// needsResend reports whether reliable messages meet a side that reports losses.
func (p Pair) needsResend() bool {
	return isReliable(p.from) && reports(p.to) || isReliable(p.to) && reports(p.from)
}

// isRaw reports whether one side is R-Type and the other has message IDs.
func (p Pair) isRaw() bool {
	return p.inWorld() && (p.from.Spec().IDs == codec.IDBeside || p.to.Spec().IDs == codec.IDBeside)
}

// RelayAny returns the configuration in which datagrams of any protocol pass unchanged.
func RelayAny(listen, server netip.AddrPort) string {
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
