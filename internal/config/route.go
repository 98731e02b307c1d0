package config

import "tidegate/internal/policy"

// Listener is an address that players connect to.
type Listener struct {
	Name      string    `toml:"name"`
	Address   Address   `toml:"address"`
	Transport Transport `toml:"transport" default:"udp"`
	Protocols []string  `toml:"protocols"` // tried in this order on a client's first datagram
	Route     string    `toml:"route"`     // name of a Route

	IdleTimeout       Duration `toml:"idle_timeout" min:"1s" max:"24h"` // zero, if not from a file: that of Limits
	ProxyProtocolFrom []Prefix `toml:"proxy_protocol_from"`             // trusted sources of PROXY protocol headers

	// for NetherNet's clients: addresses that they are told (none: the one they have reached), and files for HTTPS
	PublicAddresses []IP   `toml:"public_addresses"`
	TLSCertificate  string `toml:"tls_certificate"`
	TLSKey          string `toml:"tls_key"`

	// for NetherNet's clients on a route that terminates
	Identity       Identity `toml:"identity" default:"proof"`
	IdentityKey    string   `toml:"identity_key"`    // file
	IdentityIssuer string   `toml:"identity_issuer"` // file

	Own Options `toml:"*"` // tables of protocols in place of the process's
}

// Identity says how the identities of NetherNet's players are checked.
type Identity string

// Checks of identities.
const (
	IdentityProof  Identity = "proof"  // the login has the key that has signed the join
	IdentityMojang Identity = "mojang" // also, Mojang's service has signed the player's token
	IdentityNone   Identity = "none"   // for tests
)

// Choices lists the words of the configuration.
func (Identity) Choices() []string { return choices(IdentityProof, IdentityMojang, IdentityNone) }

// describeOverlap describes the new clients that are left for later, a protocol that is listed after another one.
// With all, earlier accepts all of them.
func describeOverlap(earlier, later string, all bool) string {
	rest := "no players"
	if !all {
		rest = "only players whose first datagram differs"
	}
	return earlier + " is listed first and gets the players of both, so " + later + " gets " + rest
}

// Transport carries the datagrams of a listener or an upstream.
type Transport string

// Transports.
const (
	UDP Transport = "udp"
	TCP Transport = "tcp" // each datagram is a frame, as in Riptide's own TCP transport
)

// Choices lists the words of the configuration.
func (Transport) Choices() []string { return choices(UDP, TCP) }

// ProxyProtocol says which datagrams to a server begin with a header that names the client.
type ProxyProtocol = Word[policy.Headers]

// Route connects listeners to an upstream and configures the bridge between their protocols.
type Route struct {
	Name       string   `toml:"name"`
	Upstream   string   `toml:"upstream"` // name of an Upstream
	Mode       Mode     `toml:"mode" default:"terminate"`
	Admit      Admit    `toml:"admit" default:"auto"`
	Ordered    Ordered  `toml:"ordered"`  // empty: not stated
	Reliable   Reliable `toml:"reliable"` // empty: not stated
	AllowLossy bool     `toml:"allow_lossy"`
	Envelope   Envelope `toml:"envelope" default:"id"`
	// first byte of a RakNet message from another protocol: RakNet uses bytes below 0x1b itself, and rewrites the time
	// behind 0x1b; the next byte marks messages without an ID
	PacketID int `toml:"packet_id" default:"0x86" min:"28" max:"254"`
	// message ID given to messages of a raw envelope
	RawMessageID uint16     `toml:"raw_message_id"`
	Queue        Size       `toml:"queue" default:"16MiB" min:"16KiB" max:"1GiB"` // bytes queued for one peer
	Undeclared   Undeclared `toml:"undeclared" default:"pass"`                    // for messages that are in no table
	Failover     Failover   `toml:"failover" default:"disconnect"`                // for players whose server is lost
	HoldTime     Duration   `toml:"hold_time" default:"15s" min:"1s" max:"10m"`   // how long failover holds them
	HoldGoodbyes bool       `toml:"hold_goodbyes"`                                // also after a goodbye without a reason
	HoldNewIDs   bool       `toml:"hold_new_ids"`                                 // also if the Riptide client ID changes
	Pong         PongSource `toml:"pong" default:"auto"`                          // source of the server list text
	// replaces the servers' name in the text; empty: theirs
	PongName string        `toml:"pong_name"`
	Messages []Message     `toml:"message"`
	Map      []MapRow      `toml:"map"`
	Modules  []RouteModule `toml:"module"`
}

// Mode is the word for a route's mode.
type Mode = Word[policy.Mode]

// Admit is the word for when the upstream is asked about a new client.
type Admit = Word[policy.Admit]

// Ordered is the word for how ordered messages cross to a protocol without order.
type Ordered = Word[policy.Ordered]

// Reliable is the word for how reliable messages cross.
type Reliable = Word[policy.Reliable]

// Envelope is the word for the form of IDs in a protocol without them.
type Envelope = Word[policy.Envelope]

// Failover is the treatment of players whose server is lost.
type Failover string

// Treatments.
const (
	FailoverDisconnect Failover = "disconnect" // disconnected; they may join again
	FailoverHold       Failover = "hold"       // held while Tidegate looks for a server
)

// Choices lists the words of the configuration.
func (Failover) Choices() []string { return choices(FailoverDisconnect, FailoverHold) }

// PongSource is the source of a listener's server list text.
type PongSource string

// Sources of the text.
const (
	PongAuto       PongSource = "auto"       // the upstream's servers in mode relay, else the protocol's own option
	PongConfigured PongSource = "configured" // the protocol's own option
	PongUpstream   PongSource = "upstream"   // the upstream's servers
)

// Choices lists the words of the configuration.
func (PongSource) Choices() []string { return choices(PongAuto, PongConfigured, PongUpstream) }

// maxPongName leaves room for the rest of a server list text.
const maxPongName = 100

// AsksServers reports whether a route's server lists show the texts of its servers.
func (r *Route) AsksServers() bool {
	return r.Pong == PongUpstream || r.Pong == PongAuto && r.Mode.Is(policy.ModeRelay)
}

// Message declares the values of a message, so that its payload can be encoded for another dialect.
type Message struct {
	ID    int      `toml:"id" default:"-1"` // 0 to 65535; negative: not stated
	Types []string `toml:"types"`           // of its values, in order
}

// Undeclared is the handling of messages without declared types between dialects that encode values differently, and of
// messages without a row of a map.
type Undeclared = Word[policy.Unmapped]

// maxMessageID is the largest message ID. IDs have 16 bits in every protocol.
const maxMessageID = 65535

// MapRow pairs messages of a route's players with messages of its servers.
type MapRow struct {
	Client  Form     `toml:"client"`
	Server  Form     `toml:"server"`
	From    Sender   `toml:"from" default:"any"`
	Mode    Delivery `toml:"mode"` // empty: the sender's
	Channel int      `toml:"channel" default:"-1" min:"-1" max:"255"`
}

// Form is how messages begin: numbers as policy.ParseForm reads them.
type Form string

// UnmarshalText reads a form.
func (f *Form) UnmarshalText(text []byte) error {
	*f = Form(text)
	_, err := policy.ParseForm(string(text))
	return err
}

// Value returns the form, which UnmarshalText has checked.
func (f Form) Value() policy.Form {
	v, _ := policy.ParseForm(string(f))
	return v
}

// ToClient reports whether the mode and the channel of a row are for messages to players.
func (r *MapRow) ToClient() bool { return r.From.Is(policy.FromUpstream) }
