package config

import (
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tidegate/codec/raknet"
	"tidegate/internal/policy"
)

// Upstream is a group of equal game servers.
type Upstream struct {
	Name       string     `toml:"name"`
	Protocol   string     `toml:"protocol"`
	Transport  Transport  `toml:"transport" default:"udp"`
	Servers    []Server   `toml:"servers"`
	Discover   []Discover `toml:"discover"` // sources of more servers
	Resolver   Address    `toml:"resolver"` // DNS server; none: the system's
	Kubernetes Kubernetes `toml:"kubernetes"`
	Agones     Agones     `toml:"agones"`
	Balance    Balance    `toml:"balance" default:"least_sessions"`

	Library Library `toml:"server_library" default:"any"`
	// empty: the system's choice
	Sources []Source `toml:"sources"`
	// per 10 ms, from each source to each server; 0: as Library says
	MaxPackets int `toml:"max_packets" min:"0" max:"10000"`

	Health         Health   `toml:"health" default:"auto"`
	HealthInterval Duration `toml:"health_interval" default:"2s" min:"100ms" max:"1h"`

	ProxyProtocol ProxyProtocol `toml:"proxy_protocol" default:"off"`

	NAT bool `toml:"nat"` // the servers are behind NAT or in containers: NetherNet's addresses are not theirs

	// file of the key that signs the joins at NetherNet servers, on routes that terminate
	IdentityKey string `toml:"identity_key"`

	CookieMode   CookieMode `toml:"cookie_mode" default:"active"` // of the servers
	CookieSecret Key        `toml:"cookie_secret"`                // of the servers, for their cookies

	Own Options `toml:"*"` // tables of protocols in place of the process's
}

// Balance is the strategy that chooses a server for the next session.
type Balance = Word[policy.Balance]

// Health is the method that checks whether an upstream's servers are up.
type Health string

// Methods.
const (
	HealthAuto    Health = "auto"    // http if clients join so, ping if the protocol has one, else off
	HealthOff     Health = "off"     // no checks: only sessions show failures
	HealthPing    Health = "ping"    // the ping of server lists
	HealthHTTP    Health = "http"    // the GET of NetherNet's server lists
	HealthConnect Health = "connect" // joins, and leaves at once
)

// Choices lists the words of the configuration.
func (Health) Choices() []string {
	return choices(HealthAuto, HealthOff, HealthPing, HealthHTTP, HealthConnect)
}

// CookieMode says which side makes the RakNet cookies that prove addresses, and which side checks them.
type CookieMode = raknet.CookieMode

// fileKey begins the path of a file with a key.
const fileKey = "file:"

// Server is a game server. In the file it is an address, or a table with an address and more.
type Server struct {
	Address     Address `toml:"address"`
	Weight      int     `toml:"weight" default:"1"` // share of the players, compared with other servers
	MaxSessions int     `toml:"max_sessions"`       // 0: no bound
}

// ServerAt returns a server with an address and defaults.
func ServerAt(addr netip.AddrPort) Server { return Server{Address: AddressOf(addr), Weight: 1} }

// UnmarshalText reads a server that is written as an address.
func (s *Server) UnmarshalText(text []byte) error { return s.Address.UnmarshalText(text) }

// String returns the server's address.
func (s Server) String() string { return s.Address.String() }

const (
	maxWeight   = 1000
	maxSessions = 1_000_000
)

// IP is an IP address as the user wrote it.
type IP string

var ipType = reflect.TypeFor[IP]()

// UnmarshalText reads an address without a zone.
func (a *IP) UnmarshalText(text []byte) error {
	parsed, err := netip.ParseAddr(string(text))
	if err != nil || parsed.Zone() != "" {
		return errUnit
	}
	*a = IP(text)
	return nil
}

// Addr returns the address. IPv4 within IPv6 becomes IPv4.
func (a IP) Addr() netip.Addr {
	parsed, _ := netip.ParseAddr(string(a)) // UnmarshalText has checked it
	return parsed.Unmap()
}

// Library is the RakNet library of an upstream's servers. Some block an address that sends many datagrams.
type Library string

// Libraries.
const (
	AnyLibrary        Library = "any"        // not known: the strictest bound of the servers of its protocol
	CloudburstLibrary Library = "cloudburst" // Nukkit, Geyser, WaterdogPE
	RakLibLibrary     Library = "raklib"     // PocketMine
	GoRakNetLibrary   Library = "go-raknet"  // Dragonfly
	StockLibrary      Library = "stock"      // C++ RakNet, Minecraft's own server
)

// Choices lists the words of the configuration.
func (Library) Choices() []string {
	return choices(AnyLibrary, CloudburstLibrary, RakLibLibrary, GoRakNetLibrary, StockLibrary)
}

// Packets returns the largest number of datagrams in 10 ms from one address to one server; 0 means unbounded.
// Cloudburst blocks an address beyond 120 in 10 ms, and RakLib beyond 200. A server that is late reads the datagrams of
// several spans at once, so the bounds are a third: with half, a real Cloudburst server blocked us. Sessions with
// addresses of their own need none.
func (u *Upstream) Packets() int {
	switch {
	case u.MaxPackets > 0:
		return u.MaxPackets
	case u.Transport == TCP, u.SeparatesPlayers():
		return 0
	case u.Library == CloudburstLibrary, u.Library == AnyLibrary && u.Protocol == "bedrock":
		return 40
	case u.Library == RakLibLibrary:
		return 65
	}
	return 0
}

// Source says from where sessions are sent to servers, as the user wrote it: an address of this machine, a prefix of
// which each session has an address of its own, or a word.
type Source string

// Words of sources.
const (
	Players Source = "players" // the players' own addresses
	Shared  Source = "shared"  // sessions at different servers share sockets
)

var sourceType = reflect.TypeFor[Source]()

// UnmarshalText reads an address, a prefix or a word.
func (s *Source) UnmarshalText(text []byte) error {
	if !Source(text).isWord() {
		if err := new(Prefix).UnmarshalText(text); err != nil {
			return err
		}
	}
	*s = Source(text)
	return nil
}

func (s Source) isWord() bool { return s == Players || s == Shared }

func (s Source) isPrefix() bool { return strings.Contains(string(s), "/") }

// addr returns the address; the zero Addr, if it is none.
func (s Source) addr() netip.Addr {
	if s.isWord() || s.isPrefix() {
		return netip.Addr{}
	}
	return Prefix(s).Prefix().Addr()
}

// Transparent reports whether sessions use the players' own addresses.
func (u *Upstream) Transparent() bool { return slices.Contains(u.Sources, Players) }

// SharesSockets reports whether sessions at different servers share sockets without addresses of their own.
func (u *Upstream) SharesSockets() bool { return slices.Contains(u.Sources, Shared) }

// SourcePrefix returns the network of which each session has its own address. The zero Prefix means that there is none.
func (u *Upstream) SourcePrefix() netip.Prefix {
	if i := slices.IndexFunc(u.Sources, Source.isPrefix); i >= 0 {
		return Prefix(u.Sources[i]).Prefix()
	}
	return netip.Prefix{}
}

// SourceAddresses returns the addresses of this machine that sessions are spread over.
func (u *Upstream) SourceAddresses() (all []netip.Addr) {
	for _, s := range u.Sources {
		if addr := s.addr(); addr.IsValid() {
			all = append(all, addr)
		}
	}
	return all
}

// SeparatesPlayers reports whether servers see an address for each player.
func (u *Upstream) SeparatesPlayers() bool { return u.Transparent() || u.SourcePrefix().IsValid() }

// Discover is a source of further servers. Exactly one of Host, Service and File is set.
type Discover struct {
	Host    string // DNS name with addresses
	Port    uint16 // of the servers at Host
	Service string // DNS name with SRV records
	File    string // path of a list
}

// discoverFile begins a Discover with a file.
const discoverFile = "file:"

var errDiscover = errors.New("no place to discover servers at")

// UnmarshalText reads what String writes.
func (d *Discover) UnmarshalText(text []byte) error {
	*d = Discover{}
	s := string(text)
	if path, ok := strings.CutPrefix(s, discoverFile); ok && path != "" {
		d.File = path
		return nil
	}
	if labels := strings.Split(s, "."); strings.HasPrefix(s, "_") {
		if len(labels) < 3 || !strings.HasPrefix(labels[1], "_") || !isHost(s) {
			return errDiscover
		}
		d.Service = s
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || !isHost(host) || net.ParseIP(host) != nil {
		return errDiscover
	}
	d.Host, d.Port = host, uint16(n)
	return nil
}

// String returns the text in the file.
func (d Discover) String() string {
	switch {
	case d.File != "":
		return discoverFile + d.File
	case d.Service != "":
		return d.Service
	case d.Host != "":
		return net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
	}
	return ""
}

// isHost reports whether a text can be a DNS name.
func isHost(text string) bool {
	text = strings.TrimSuffix(text, ".")
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > 63 || !isBare(label) {
			return false
		}
	}
	return len(text) <= 253
}

// Kubernetes finds an upstream's servers by a service of a Kubernetes cluster. It is off if all is empty.
type Kubernetes struct {
	Service    string `toml:"service"`
	Port       string `toml:"port"`       // name or number; empty: the only one of the transport
	Namespace  string `toml:"namespace"`  // empty: the pod's own, or the one of Kubeconfig
	Kubeconfig string `toml:"kubeconfig"` // path; empty: the service account of the pod
}

// On reports whether servers are found by a service.
func (k *Kubernetes) On() bool { return *k != Kubernetes{} }

// Discovers reports whether servers beside the listed ones are looked for.
func (u *Upstream) Discovers() bool {
	return len(u.Discover) > 0 || u.Kubernetes.On() || u.Agones.On()
}

const labelForm = "at most 63 small letters, digits and -, with a letter or digit at both ends"

// isLabel reports whether a text can be the name of a service or a namespace.
func isLabel(text string) bool {
	return len(text) > 0 && len(text) <= 63 && !strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-") &&
		!slices.ContainsFunc([]byte(text), func(b byte) bool { return !isSmall(b) && b != '-' })
}

func isSmall(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

// Agones finds an upstream's servers by the GameServers of a Kubernetes cluster. It is off without Fleet and Selector.
type Agones struct {
	Fleet      string        `toml:"fleet"`
	Selector   string        `toml:"selector"`                         // by labels
	Port       string        `toml:"port"`                             // name or number; empty: the only one
	States     []AgonesState `toml:"states" default:"Ready,Allocated"` // that take new sessions
	Address    AgonesAddress `toml:"address" default:"node"`
	Capacity   string        `toml:"capacity"`   // counter or list that bounds the sessions; empty: none
	Namespace  string        `toml:"namespace"`  // empty: the pod's own, or the one of Kubeconfig
	Kubeconfig string        `toml:"kubeconfig"` // path; empty: the service account of the pod
}

// On reports whether servers are GameServers.
func (a *Agones) On() bool { return a.Fleet != "" || a.Selector != "" }

// AgonesState is a state of a GameServer in which it can have players.
type AgonesState string

// States.
const (
	AgonesReady     AgonesState = "Ready"     // Agones may delete it at any time
	AgonesAllocated AgonesState = "Allocated" // it is in use
	AgonesReserved  AgonesState = "Reserved"  // it is kept for a use to come
)

// Choices lists the words of the configuration.
func (AgonesState) Choices() []string { return choices(AgonesReady, AgonesAllocated, AgonesReserved) }

// AgonesAddress is one of the addresses of a GameServer.
type AgonesAddress string

// Addresses.
const (
	AgonesNode     AgonesAddress = "node"     // that Agones tells players: the node's external one, if it has one
	AgonesInternal AgonesAddress = "internal" // the node's internal one
	AgonesPod      AgonesAddress = "pod"      // the pod's, with the ports of its container
)

// Choices lists the words of the configuration.
func (AgonesAddress) Choices() []string { return choices(AgonesNode, AgonesInternal, AgonesPod) }
