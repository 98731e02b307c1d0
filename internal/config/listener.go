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
