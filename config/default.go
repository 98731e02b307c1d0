package config

import "time"

// Default returns the configuration of an empty file: every option at its default, and no listener, route or upstream.
func Default() *Config {
	return &Config{
		Log: Log{Level: Info, Format: FormatAuto, PlayerAddresses: true},
		Loop: Loop{
			Backend:       BackendAuto,
			ReceiveBuffer: 2 * MiB,
		},
		Limits: Limits{
			Sessions:         10_000,
			HalfOpen:         1_000,
			HandshakeTimeout: Duration(10 * time.Second),
			IdleTimeout:      Duration(30 * time.Second),
			DrainTimeout:     Duration(2 * time.Second),
		},
		RakNet:  defaultRakNet(6, 9, 10, 11),
		Bedrock: defaultRakNet(9, 10, 11),
		Riptide: Riptide{
			Heartbeat:         Duration(time.Second),
			Timeout:           Duration(5 * time.Second),
			ConnectAttempts:   5,
			MaxPayload:        1225,
			QualityDisconnect: true,
		},
	}
}

func defaultRakNet(versions ...uint8) RakNet {
	return RakNet{
		Versions:   versions,
		MaxMTU:     1492,
		Cookies:    true,
		MaxMessage: 2 * MiB,
		Timeout:    Duration(10 * time.Second),
	}
}

// defaulter is an entry of a list of tables that has defaults of its own.
type defaulter interface{ setDefaults() }

func (r *Route) setDefaults() {
	*r = Route{Admit: UpstreamFirst, Envelope: EnvelopeID, PacketID: 0x86, Queue: 4 * MiB}
}

func (u *Upstream) setDefaults() {
	*u = Upstream{Balance: LeastSessions, RetryAfter: Duration(5 * time.Second)}
}
