// Package config reads tidegate.toml into a plain struct, fills in defaults, and refuses what cannot work: all at
// once, each fault with its line, key, value and remedy. It knows neither sockets nor codecs: what a protocol can do
// is told to it as Traits.
//
// Start with Load. config.example.toml is the manual of the keys; docs/configuration.md has them in tables.
package config

// Config is the whole of tidegate.toml. Every field has the key of its toml tag.
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

	places *index // where each key stands; nil if the Config was not read from a file
}

// Log says what is logged and how.
type Log struct {
	Level           LogLevel  `toml:"level"`
	Format          LogFormat `toml:"format"`
	PlayerAddresses bool      `toml:"player_addresses"` // false: players' addresses are redacted
}

// Loop tunes the loops that carry the datagrams.
type Loop struct {
	Count         int      `toml:"count"` // 0: automatic
	Backend       Backend  `toml:"backend"`
	MaxBatchDelay Duration `toml:"max_batch_delay"` // how long an outgoing datagram may wait for company
	ReceiveBuffer Size     `toml:"receive_buffer"`  // of each listening socket, in the kernel
}

// Limits bound sessions and their times, over all listeners together.
type Limits struct {
	Sessions int `toml:"sessions"`
	HalfOpen int `toml:"half_open"` // sessions whose handshake has not ended
	// Of those, from one address and from one network, whose sizes NetworkIPv4 and NetworkIPv6 are, in bits.
	HalfOpenPerAddress int `toml:"half_open_per_address"`
	HalfOpenPerNetwork int `toml:"half_open_per_network"`
	NetworkIPv4        int `toml:"network_ipv4"`
	NetworkIPv6        int `toml:"network_ipv6"`

	HandshakeTimeout Duration `toml:"handshake_timeout"`
	IdleTimeout      Duration `toml:"idle_timeout"`
	DrainGrace       Duration `toml:"drain_grace"`    // for sessions to end by themselves at shutdown
	DrainTimeout     Duration `toml:"drain_timeout"`  // for goodbyes at shutdown
	HandoverGrace    Duration `toml:"handover_grace"` // for sessions to end once a successor has the listeners
	// Answers a second to strangers that are larger than what they answer, of each listener.
	PingAnswers           int `toml:"ping_answers"`
	PingAnswersPerNetwork int `toml:"ping_answers_per_network"` // IPv4 /24, IPv6 /48
	// Bytes a second, on the wire, to clients that have not proved their address.
	UnprovedBytes           Size      `toml:"unproved_bytes"`
	UnprovedBytesPerNetwork Size      `toml:"unproved_bytes_per_network"` // IPv4 /24, IPv6 /48
	UnprovedBytesPerSession Size      `toml:"unproved_bytes_per_session"`
	TrustedNetworks         []Network `toml:"trusted_networks"` // whose addresses nobody forges
}

// Listener is an address that players connect to.
type Listener struct {
	Name      string    `toml:"name"`
	Address   Address   `toml:"address"`
	Transport Transport `toml:"transport"`
	Protocols []string  `toml:"protocols"` // tried in this order on a newcomer's first datagram
	Route     string    `toml:"route"`     // name of a Route

	ProxyProtocolFrom []Network `toml:"proxy_protocol_from"` // whose PROXY protocol headers are believed
}

// Route joins listeners to an upstream and says how messages cross where the two protocols differ.
type Route struct {
	Name         string     `toml:"name"`
	Upstream     string     `toml:"upstream"` // name of an Upstream
	Mode         Mode       `toml:"mode"`
	Admit        Admit      `toml:"admit"`
	Ordered      Ordered    `toml:"ordered"`  // empty: not stated
	Reliable     Reliable   `toml:"reliable"` // empty: not stated
	AllowLossy   bool       `toml:"allow_lossy"`
	Envelope     Envelope   `toml:"envelope"`
	PacketID     uint8      `toml:"packet_id"`      // first byte of a RakNet message that came from elsewhere
	RawMessageID uint16     `toml:"raw_message_id"` // message ID given to messages of a raw envelope
	Queue        Size       `toml:"queue"`          // towards one peer
	Undeclared   Undeclared `toml:"undeclared"`     // messages without an entry in Messages
	Failover     Failover   `toml:"failover"`       // of players whose server is lost
	HoldTime     Duration   `toml:"hold_time"`      // how long they are kept
	HoldGoodbyes bool       `toml:"hold_goodbyes"`  // also after a goodbye without a reason
	HoldNewIDs   bool       `toml:"hold_new_ids"`   // also under another Riptide client ID
	Pong         PongSource `toml:"pong"`           // text for server lists
	PongName     string     `toml:"pong_name"`      // in place of the servers' name in it; empty: theirs
	PongRefresh  Duration   `toml:"pong_refresh"`   // from one question to the servers to the next
	PongKeep     Duration   `toml:"pong_keep"`      // how long the text of a silent server counts
	Messages     []Message  `toml:"message"`
}

// Message declares the values of a message, so that its payload can be spelled anew for another dialect.
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
	Discover   []Discover `toml:"discover"` // where more servers are found
	Resolver   Address    `toml:"resolver"` // DNS server; none: the system's
	Balance    Balance    `toml:"balance"`
	RetryAfter Duration   `toml:"retry_after"` // how long a server that failed a session rests

	Sources       []IP     `toml:"sources"`     // addresses of this machine; empty: the system's choice
	MaxPackets    int      `toml:"max_packets"` // in MaxPacketsPer, from each source to each server; 0: unbounded
	MaxPacketsPer Duration `toml:"max_packets_per"`

	Health         Health   `toml:"health"`
	HealthInterval Duration `toml:"health_interval"`
	HealthTimeout  Duration `toml:"health_timeout"`
	HealthRise     int      `toml:"health_rise"` // checks in a row
	HealthFall     int      `toml:"health_fall"` // checks in a row

	ProxyProtocol ProxyProtocol `toml:"proxy_protocol"`
	Transparent   bool          `toml:"transparent"`    // sessions come from the players' own addresses
	SourcePrefix  SourcePrefix  `toml:"source_prefix"`  // of the addresses that sessions come from, one each; empty: one for all
	ShareSockets  bool          `toml:"share_sockets"`  // sessions at different servers share sockets
	ReceiveBuffer Size          `toml:"receive_buffer"` // of each socket towards a server, in the kernel

	CookieMode   CookieMode `toml:"cookie_mode"`   // of the servers
	CookieSecret Key        `toml:"cookie_secret"` // of the servers, to make their cookies
}
