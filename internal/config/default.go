package config

import (
	"time"

	"tidegate/codec/raknet"
)

// Default returns the configuration of an empty file: every option has its default, and there is no listener, route
// or upstream.
func Default() *Config {
	return &Config{
		Log: Log{Level: Info, Format: FormatAuto, PlayerAddresses: true},
		Loop: Loop{
			Backend:       BackendAuto,
			ReceiveBuffer: 2 * MiB,
		},
		Limits: Limits{
			Sessions: 10_000,
			HalfOpen: 1_000,

			HalfOpenPerAddress: 32,
			HalfOpenPerNetwork: 128,
			NetworkIPv4:        24,
			NetworkIPv6:        64,

			HandshakeTimeout: Duration(10 * time.Second),
			IdleTimeout:      Duration(30 * time.Second),
			DrainTimeout:     Duration(2 * time.Second),
			HandoverGrace:    Duration(time.Hour),

			PingAnswers:           2000,
			PingAnswersPerNetwork: 20,

			UnprovedBytes:           32 * MiB,
			UnprovedBytesPerNetwork: 4 * MiB,
			UnprovedBytesPerSession: 512 * KiB,
			TrustedNetworks:         []Network{},
		},
		Bans:    defaultBans(),
		Kernel:  defaultKernel(),
		Options: defaultOptions(),
		Admin:   Admin{Listen: "127.0.0.1:9470"},
	}
}

// defaulter is an element of a list of tables with defaults of its own.
type defaulter interface{ setDefaults() }

func (l *Listener) setDefaults() { *l = Listener{Transport: UDP, ProxyProtocolFrom: []Network{}} }

func (r *Route) setDefaults() {
	*r = Route{
		Mode: Terminate, Admit: UpstreamFirst, Envelope: EnvelopeID, PacketID: 0x86, Queue: 4 * MiB, Undeclared: UndeclaredPass,
		Failover: FailoverDisconnect, HoldTime: seconds(15),
		Pong: PongAuto, PongRefresh: seconds(2), PongKeep: seconds(60),
	}
}

func (f *Filter) setDefaults() { *f = Filter{From: FromAny, Per: seconds(1)} }

func (m *Message) setDefaults() { *m = Message{ID: -1} }

func (u *Upstream) setDefaults() {
	*u = Upstream{
		Transport: UDP, Balance: LeastSessions, RetryAfter: Duration(5 * time.Second), CookieMode: raknet.CookiesActive,
		Discover: []Discover{}, Health: HealthAuto, HealthInterval: seconds(2), HealthTimeout: seconds(1), HealthRise: 2, HealthFall: 3,
		ProxyProtocol: HeadersOff, Sources: []IP{}, MaxPacketsPer: milliseconds(10), ReceiveBuffer: MiB,
	}
}
