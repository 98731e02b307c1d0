package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tidegate/internal/each"
	"tidegate/internal/policy"
)

// failover checks a route's treatment of players whose server is lost.
func (v *validator) failover(path string, r Route) {
	if r.Mode.Is(policy.ModeRelay) && r.Failover == FailoverHold {
		v.fault(child(path, "failover"), r.Failover, `"disconnect": a route in mode "relay" does not understand the `+
			`players' protocol`)
	}
	if r.Failover == FailoverHold {
		return
	}
	for key, value := range map[string]any{
		"hold_time": r.HoldTime, "hold_goodbyes": r.HoldGoodbyes, "hold_new_ids": r.HoldNewIDs,
	} {
		if value != seconds(15) && value != false {
			v.warn(child(path, key), value, `failover = "hold": without it this key has no effect`)
		}
	}
}

// holdsBedrock checks that no hold is for Minecraft's sessions, which cannot use it.
func (v *validator) holdsBedrock(path string, r Route) {
	i := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
	if r.Failover != FailoverHold || i < 0 {
		return
	}
	switch speaks := v.Upstreams[i].Protocol; {
	case v.known[speaks].Edge:
		v.fault(child(path, "failover"), r.Failover, `"disconnect": a session at a NetherNet server cannot go on elsewhere`)
	case speaks == "bedrock":
		v.warn(child(path, "failover"), r.Failover, `"disconnect" for Minecraft: its session cannot go on at another `+
			`server, also not by a transfer; other games on RakNet can`)
	}
}

// routes checks each route by itself. bridges checks its two protocols together.
func (v *validator) routes() {
	for i, r := range v.Routes {
		path := item("route", i)
		v.reference(child(path, "upstream"), r.Upstream, "upstream", each.Of(v.Upstreams, upstreamName))
		v.pong(path, r)
		v.failover(path, r)
		v.holdsBedrock(path, r)
	}
}

// pong checks the answers of a route's listeners to server lists.
func (v *validator) pong(path string, r Route) {
	if len(r.PongName) > maxPongName || strings.Contains(r.PongName, ";") {
		v.fault(child(path, "pong_name"), r.PongName, fmt.Sprintf("at most %d bytes of text without semicolons", maxPongName))
	}
	if r.Pong == PongUpstream {
		v.pongServers(child(path, "pong"), r)
	}
}

// pongServers checks that a route has servers with texts, and listeners that show them.
func (v *validator) pongServers(key string, r Route) {
	upstream := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
	if upstream < 0 {
		return
	}
	// In a relay, the servers speak the listener's protocol.
	if name := v.Upstreams[upstream].Protocol; v.known[name].Client && !v.known[name].Pings && !v.known[name].Opaque {
		v.fault(key, r.Pong, fmt.Sprintf("%q: %s servers have no text for server lists", PongConfigured, name))
		return
	}
	routed := false
	for _, l := range v.Listeners {
		if l.Route == r.Name {
			routed = true
			if slices.ContainsFunc(l.Protocols, func(name string) bool { return v.known[name].Pings }) {
				return
			}
		}
	}
	if routed {
		v.warn(key, r.Pong, fmt.Sprintf("%q: no protocol of the route's listeners has server lists", PongConfigured))
	}
}

// terminable checks that Tidegate speaks the protocols of a route that terminates, and reports whether it does.
func (v *validator) terminable(r Route, upstream int) bool {
	known := true
	speaks := v.Upstreams[upstream].Protocol
	remedy := func(name string) string {
		switch {
		case v.known[name].Edge:
			return `mode = "relay" for the route: NetherNet can be terminated only towards servers of "bedrock" or "nethernet"`
		case !v.known[name].Opaque:
			return `"bedrock" or "nethernet": only Bedrock's players can play on NetherNet servers`
		}
		return `a protocol that Tidegate speaks, or mode = "relay" for the route: an unknown protocol cannot be terminated`
	}
	isBedrock := func(name string) bool { return name == "bedrock" || v.known[name].Edge }
	for i, l := range v.Listeners {
		for j, name := range l.Protocols {
			needsBridge := v.known[name].Opaque || v.known[speaks].Edge
			if l.Route == r.Name && needsBridge && (!isBedrock(name) || !isBedrock(speaks)) {
				v.fault(item(child(item("listener", i), "protocols"), j), name, remedy(name))
				known = false
			}
		}
	}
	if v.known[speaks].Opaque && !v.known[speaks].Edge {
		v.fault(child(item("upstream", upstream), "protocol"), speaks, remedy(speaks))
		known = false
	}
	return known
}

// checkRelay checks that a route in mode relay needs nothing that requires termination.
func (v *validator) checkRelay(path string, r Route, upstream int) {
	u := v.Upstreams[upstream]
	key := child(path, "mode")
	if u.Transport == TCP {
		v.fault(key, r.Mode, `"terminate", or transport = "udp" for `+v.where(item("upstream", upstream)))
	}
	for i, l := range v.Listeners {
		if l.Route != r.Name {
			continue
		}
		if l.Transport == TCP {
			v.fault(key, r.Mode, `"terminate", or transport = "udp" for `+v.where(item("listener", i)))
		}
		for j, name := range l.Protocols {
			from, to := v.known[name], v.known[u.Protocol]
			if from.Server && to.Client && name != u.Protocol && !from.Opaque && !to.Opaque {
				v.fault(item(child(item("listener", i), "protocols"), j), name,
					`"`+u.Protocol+`", which the servers speak, mode = "terminate" for the route, or protocol = "any" for the `+
						"upstream: a relay translates nothing")
			}
		}
	}
	// These libraries block the address of a client for one broken datagram.
	blocks := u.Library == CloudburstLibrary || u.Library == RakLibLibrary || u.Library == GoRakNetLibrary
	if blocks && !u.SeparatesPlayers() {
		v.warn(child(item("upstream", upstream), "server_library"), u.Library, `sources of a prefix, or mode = "terminate": `+
			"these servers block an address, and a relay's players share one")
	}
	for key, tables := range map[string]int{"message": len(r.Messages), "map": len(r.Map), "module": len(r.Modules)} {
		if tables > 0 {
			v.warn(item(child(path, key), 0), nil, "no [[route."+key+"]] table: a relay translates nothing")
		}
	}
}

// messages checks the declared messages of the route at path. dialects are the protocols that need translation of
// payloads. Without any, payloads pass unchanged.
func (v *validator) messages(path string, r Route, dialects []string) {
	ids := make([]int, len(r.Messages))
	for i, m := range r.Messages {
		ids[i] = m.ID
		entry := item(child(path, "message"), i)
		v.messageID(entry, m.ID)
		if len(m.Types) == 0 {
			v.fault(child(entry, "types"), nil, `at least one type of value, for example ["ushort", "vector3"]`)
		}
		for j, name := range m.Types {
			v.typeName(item(child(entry, "types"), j), name, dialects)
		}
		if first := slices.Index(ids, m.ID); first < i {
			v.fault(child(entry, "id"), m.ID,
				"an ID of its own; "+v.where(item(child(path, "message"), first))+" has it already")
		}
	}
	v.adviseMessages(path, r, dialects)
}

func (v *validator) messageID(entry string, id int) {
	key := child(entry, "id")
	if id < 0 && !v.source.has(key) {
		v.fault(key, nil, "0 to 65535")
	}
	within(v.report, key, id, 0, maxMessageID)
}

// typeName checks that all dialects have a type. It reports the remedy of the first dialect without it.
func (v *validator) typeName(key, name string, dialects []string) {
	for _, dialect := range dialects {
		if want := v.known[dialect].Types(name); want != "" {
			v.fault(key, name, want)
		}
	}
}

// adviseMessages warns about declarations without effect, and about dialects without declarations.
func (v *validator) adviseMessages(path string, r Route, dialects []string) {
	key := child(path, "message")
	switch {
	case len(dialects) > 0 && len(r.Messages) == 0:
		v.warn(key, nil, "a [[route.message]] table for each message ID: "+strings.Join(dialects, " and ")+
			" encode some values differently, and no table declares them")
	case len(dialects) == 0 && len(r.Messages) > 0:
		v.warn(item(key, 0), nil,
			"no [[route.message]] table: on this route payloads pass unchanged, so types have no effect")
	case len(dialects)+len(r.Map) == 0 && !r.Undeclared.Is(policy.UnmappedPasses):
		v.warn(child(path, "undeclared"), r.Undeclared, `"pass": on this route payloads pass unchanged, declared or not`)
	}
}

// maxModules bounds the modules of a route.
const maxModules = 4

// RouteModule is a module in WebAssembly, which sees each message of a route.
type RouteModule struct {
	File      string   `toml:"file"`
	OnFailure Failure  `toml:"on_failure"`
	Memory    Size     `toml:"memory" default:"16MiB" min:"64KiB" max:"1GiB"`
	Time      Duration `toml:"time" default:"10ms" min:"1ms" max:"1s"`
}

// Failure is the word for what becomes of messages while a module fails.
type Failure = Word[policy.Failure]

// Name returns the module's name: that of its file.
func (m *RouteModule) Name() string {
	name := filepath.Base(m.File)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// modules checks the modules of the route at path.
func (v *validator) modules(path string, r Route) {
	key := child(path, "module")
	if len(r.Modules) > maxModules {
		v.fault(item(key, maxModules), nil, fmt.Sprintf("at most %d modules", maxModules))
		return
	}
	for i := range r.Modules {
		m, entry := &r.Modules[i], item(key, i)
		if m.File == "" {
			v.fault(child(entry, "file"), nil, "the path of a module in WebAssembly")
		}
		if m.OnFailure == "" {
			v.fault(child(entry, "on_failure"), nil, expected(failureType))
		}
		for j := range i {
			if m.File != "" && r.Modules[j].Name() == m.Name() {
				v.fault(child(entry, "file"), m.File, "a name of its own; "+v.where(item(key, j))+" has it already")
			}
		}
	}
}

// ModuleFault returns the fault of a module that cannot be used, by the numbers of its route and of it.
func (c *Config) ModuleFault(route, module int, err error) error {
	r := newReport(c.places)
	key := child(item(child(item("route", route), "module"), module), "file")
	r.fault(key, c.Routes[route].Modules[module].File, "a module that can be used: "+err.Error())
	_, fault := r.result()
	return fault
}
