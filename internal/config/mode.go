package config

// Mode is the treatment of datagrams on a route.
type Mode string

// Modes.
const (
	Terminate Mode = "terminate" // both protocols end in Tidegate, which carries the messages
	Relay     Mode = "relay"     // datagrams pass unchanged
)

// Choices lists the words of the configuration.
func (Mode) Choices() []string { return choices(Terminate, Relay) }

// terminable checks that Tidegate speaks the protocols of a route that terminates, and reports whether it does.
func (v *validator) terminable(r Route, upstream int) bool {
	known := true
	remedy := "a protocol that Tidegate speaks, or mode = \"relay\" for the route: an unknown protocol cannot be " +
		"terminated"
	for i, l := range v.Listeners {
		for j, name := range l.Protocols {
			if l.Route == r.Name && v.known[name].Opaque {
				v.fault(item(child(item("listener", i), "protocols"), j), name, remedy)
				known = false
			}
		}
	}
	if name := v.Upstreams[upstream].Protocol; v.known[name].Opaque {
		v.fault(child(item("upstream", upstream), "protocol"), name, remedy)
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
			if v.known[name].Server && v.known[u.Protocol].Client && !v.compatible(name, u.Protocol) {
				v.fault(item(child(item("listener", i), "protocols"), j), name,
					`"`+u.Protocol+`", which the servers speak, mode = "terminate" for the route, or protocol = "any" for the `+
						"upstream: a relay translates nothing")
			}
		}
	}
	if u.Library.blocks() && !u.Transparent && u.SourcePrefix == "" {
		v.warn(child(item("upstream", upstream), "server_library"), u.Library, "a source_prefix, or mode = \"terminate\": "+
			"these servers block an address, and a relay's players share one")
	}
	if len(r.Messages) > 0 {
		v.warn(item(child(path, "message"), 0), nil, "no [[route.message]] table: a relay translates nothing")
	}
}

// compatible reports whether a client and a server understand each other without translation.
func (v *validator) compatible(client, server string) bool {
	return client == server || v.known[client].Opaque || v.known[server].Opaque
}
