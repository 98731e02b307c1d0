// Package config reads tidegate.toml into a plain struct, adds defaults, and refuses an unusable configuration. It
// reports all faults at once, each with line, key, value and remedy. It knows neither sockets nor codecs: Traits tell
// it the abilities of each protocol.
//
// Start with Load. config.example.toml is the manual of the keys, and docs/configuration.md has them in tables.
package config

// Config is the whole of tidegate.toml. The toml tag of each field is its key.
type Config struct {
	Log       Log        `toml:"log"`
	Loop      Loop       `toml:"loop"`
	Limits    Limits     `toml:"limits"`
	Rates     []Limit    `toml:"limit"`
	Bans      Bans       `toml:"bans"`
	Kernel    Kernel     `toml:"kernel"`
	Listeners []Listener `toml:"listener"`
	Routes    []Route    `toml:"route"`
	Upstreams []Upstream `toml:"upstream"`
	Access    []Access   `toml:"access"`
	Filters   []Filter   `toml:"filter"`
	Geo       Geo        `toml:"geo"`
	Options   Options    `toml:"*"`
	Admin     Admin      `toml:"admin"`

	places *index // position of each key; nil if the Config was not read from a file
}

// Log configures the log.
type Log struct {
	Level           LogLevel  `toml:"level"`
	Format          LogFormat `toml:"format"`
	PlayerAddresses bool      `toml:"player_addresses"` // false: players' addresses are redacted
}

// Loop configures the loops that carry the datagrams.
type Loop struct {
	Count         int      `toml:"count"` // 0: automatic
	Backend       Backend  `toml:"backend"`
	MaxBatchDelay Duration `toml:"max_batch_delay"` // an outgoing datagram may wait this long for others
	ReceiveBuffer Size     `toml:"receive_buffer"`  // of each listening socket, in the kernel
}

// Limits bounds sessions and durations, over all listeners together.
type Limits struct {
	Sessions int `toml:"sessions"`
	HalfOpen int `toml:"half_open"` // sessions whose handshake has not ended
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

// Listener is an address that players connect to.
type Listener struct {
	Name      string    `toml:"name"`
	Address   Address   `toml:"address"`
	Transport Transport `toml:"transport"`
	Protocols []string  `toml:"protocols"` // tried in this order on a client's first datagram
	Route     string    `toml:"route"`     // name of a Route

	ProxyProtocolFrom []Network `toml:"proxy_protocol_from"` // trusted sources of PROXY protocol headers
}

// Route connects listeners to an upstream and configures the bridge between their protocols.
type Route struct {
	Name         string     `toml:"name"`
	Upstream     string     `toml:"upstream"` // name of an Upstream
	Mode         Mode       `toml:"mode"`
	Admit        Admit      `toml:"admit"`
	Ordered      Ordered    `toml:"ordered"`  // empty: not stated
	Reliable     Reliable   `toml:"reliable"` // empty: not stated
	AllowLossy   bool       `toml:"allow_lossy"`
	Envelope     Envelope   `toml:"envelope"`
	PacketID     uint8      `toml:"packet_id"`      // first byte of a RakNet message from another protocol
	RawMessageID uint16     `toml:"raw_message_id"` // message ID given to messages of a raw envelope
	Queue        Size       `toml:"queue"`          // bytes queued for one peer
	Undeclared   Undeclared `toml:"undeclared"`     // for messages without an entry in Messages
	Failover     Failover   `toml:"failover"`       // for players whose server is lost
	HoldTime     Duration   `toml:"hold_time"`      // how long failover holds them
	HoldGoodbyes bool       `toml:"hold_goodbyes"`  // also after a goodbye without a reason
	HoldNewIDs   bool       `toml:"hold_new_ids"`   // also if the Riptide client ID changes
	Pong         PongSource `toml:"pong"`           // source of the server list text
	PongName     string     `toml:"pong_name"`      // replaces the servers' name in the text; empty: theirs
	PongRefresh  Duration   `toml:"pong_refresh"`   // interval of questions to the servers
	PongKeep     Duration   `toml:"pong_keep"`      // how long the text of a silent server is shown
	Messages     []Message  `toml:"message"`
}

// Message declares the values of a message, so that its payload can be encoded for another dialect.
type Message struct {
	ID    int      `toml:"id"`    // 0 to 65535; negative: not stated
	Types []string `toml:"types"` // of its values, in order
}

// Upstream is a group of equal game servers.
type Upstream struct {
	Name       string     `toml:"name"`
	Protocol   string     `toml:"protocol"`
	Transport  Transport  `toml:"transport"`
	Servers    []Server   `toml:"servers"`
	Discover   []Discover `toml:"discover"` // sources of more servers
	Resolver   Address    `toml:"resolver"` // DNS server; none: the system's
	Balance    Balance    `toml:"balance"`
	RetryAfter Duration   `toml:"retry_after"` // rest of a server that failed a session

	Sources       []IP     `toml:"sources"`     // addresses of this machine; empty: the system's choice
	MaxPackets    int      `toml:"max_packets"` // per MaxPacketsPer, from each source to each server; 0: unbounded
	MaxPacketsPer Duration `toml:"max_packets_per"`

	Health         Health   `toml:"health"`
	HealthInterval Duration `toml:"health_interval"`
	HealthTimeout  Duration `toml:"health_timeout"`
	HealthRise     int      `toml:"health_rise"` // checks in a row
	HealthFall     int      `toml:"health_fall"` // checks in a row

	ProxyProtocol ProxyProtocol `toml:"proxy_protocol"`
	Transparent   bool          `toml:"transparent"`    // sessions use the players' own addresses
	SourcePrefix  SourcePrefix  `toml:"source_prefix"`  // each session uses its own address of this prefix; empty: all share one
	ShareSockets  bool          `toml:"share_sockets"`  // sessions at different servers share sockets
	ReceiveBuffer Size          `toml:"receive_buffer"` // of each socket to a server, in the kernel

	CookieMode   CookieMode `toml:"cookie_mode"`   // of the servers
	CookieSecret Key        `toml:"cookie_secret"` // of the servers, for their cookies
}
