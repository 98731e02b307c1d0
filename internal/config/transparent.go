package config

// transparent checks that an upstream's sessions can use the players' own addresses.
func (v *validator) transparent(path string, u Upstream) {
	key := child(path, "transparent")
	switch {
	case !u.Transparent:
	case u.Transport == TCP:
		v.fault(key, true, `false, or transport = "udp"`)
	case v.Loop.Backend == BackendPortable:
		v.fault(key, true, `false, or loop.backend = "auto": portable sockets cannot choose their address`)
	case u.SourcePrefix != "" || len(u.Sources) > 0 || u.ShareSockets:
		v.fault(key, true, "false, or neither source_prefix, sources nor share_sockets: they choose other addresses")
	}
}
