package config

// Limits bounds sessions and durations, over all listeners together.
type Limits struct {
	Sessions int `toml:"sessions"`
	// Sessions of one address (IPv6: of one /64) and of one network (IPv4 /24, IPv6 /48).
	SessionsPerAddress int `toml:"sessions_per_address"`
	SessionsPerNetwork int `toml:"sessions_per_network"`
	HalfOpen           int `toml:"half_open"` // sessions whose handshake has not ended
	// Half-open sessions of one address and of one network. NetworkIPv4 and NetworkIPv6 are the bits of a network.
	HalfOpenPerAddress int `toml:"half_open_per_address"`
	HalfOpenPerNetwork int `toml:"half_open_per_network"`
	NetworkIPv4        int `toml:"network_ipv4"`
	NetworkIPv6        int `toml:"network_ipv6"`

	HandshakeTimeout Duration `toml:"handshake_timeout"`
	IdleTimeout      Duration `toml:"idle_timeout"`
	DrainGrace       Duration `toml:"drain_grace"`    // for sessions to end by themselves at shutdown
	DrainTimeout     Duration `toml:"drain_timeout"`  // for goodbyes at shutdown
	HandoverGrace    Duration `toml:"handover_grace"` // for sessions to end once a successor has the listeners
	// Answers per second to strangers that are larger than the question, for each listener.
	PingAnswers           int `toml:"ping_answers"`
	PingAnswersPerNetwork int `toml:"ping_answers_per_network"` // IPv4 /24, IPv6 /48
	// Bytes per second, on the wire, to clients that have not proved their address.
	UnprovedBytes           Size      `toml:"unproved_bytes"`
	UnprovedBytesPerNetwork Size      `toml:"unproved_bytes_per_network"` // IPv4 /24, IPv6 /48
	UnprovedBytesPerSession Size      `toml:"unproved_bytes_per_session"`
	TrustedNetworks         []Network `toml:"trusted_networks"` // networks without forged addresses
}

func (v *validator) limits() {
	within(v.report, "limits.sessions", v.Limits.Sessions, 1, 1_000_000)
	within(v.report, "limits.sessions_per_address", v.Limits.SessionsPerAddress, 1, 1_000_000)
	within(v.report, "limits.sessions_per_network", v.Limits.SessionsPerNetwork, 1, 1_000_000)
	within(v.report, "limits.half_open", v.Limits.HalfOpen, 1, 1_000_000)
	within(v.report, "limits.half_open_per_address", v.Limits.HalfOpenPerAddress, 1, 1_000_000)
	within(v.report, "limits.half_open_per_network", v.Limits.HalfOpenPerNetwork, 1, 1_000_000)
	within(v.report, "limits.network_ipv4", v.Limits.NetworkIPv4, 8, 32)
	within(v.report, "limits.network_ipv6", v.Limits.NetworkIPv6, 16, 128)
	within(v.report, "limits.handshake_timeout", v.Limits.HandshakeTimeout, seconds(1), seconds(300))
	within(v.report, "limits.idle_timeout", v.Limits.IdleTimeout, seconds(1), seconds(86_400))
	within(v.report, "limits.drain_grace", v.Limits.DrainGrace, 0, seconds(86_400))
	within(v.report, "limits.handover_grace", v.Limits.HandoverGrace, 0, seconds(7*86_400))
	within(v.report, "limits.drain_timeout", v.Limits.DrainTimeout, 0, seconds(3600))
	within(v.report, "limits.ping_answers", v.Limits.PingAnswers, 1, 1_000_000)
	within(v.report, "limits.ping_answers_per_network", v.Limits.PingAnswersPerNetwork, 1, 1_000_000)
	within(v.report, "limits.unproved_bytes", v.Limits.UnprovedBytes, 4*KiB, GiB)
	within(v.report, "limits.unproved_bytes_per_network", v.Limits.UnprovedBytesPerNetwork, 4*KiB, GiB)
	within(v.report, "limits.unproved_bytes_per_session", v.Limits.UnprovedBytesPerSession, 4*KiB, GiB)
}
