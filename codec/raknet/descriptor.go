package raknet

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// Stock describes RakNet 4.081 and SLikeNet.
var Stock = registry.Descriptor{
	Name:     "raknet",
	Evidence: registry.ByMagic,
	Table:    "raknet",
	Options:  func() any { return defaultSettings() },
	New: func(options any, use registry.Use) codec.Protocol {
		o := options.(*Settings).with("raknet", use)
		if use.Servers != nil {
			o.suit(use.Servers)
		}
		return New(o)
	},
	Probes: true,
	Describe: func(m *registry.Memory) registry.Describe {
		d := NewDescriber()
		d.memory = m
		return d.Describe
	},
}

// Bedrock describes the dialect of Minecraft: Bedrock Edition. Stock's Describe explains it, too.
var Bedrock = registry.Descriptor{
	Name:     bedrockName,
	Aliases:  []string{"minecraft"},
	Evidence: registry.ByMagic,
	Table:    "raknet",
	Options:  func() any { return defaultSettings() },
	New: func(options any, use registry.Use) codec.Protocol {
		o := options.(*Settings).with(bedrockName, use)
		o.DialVersion = 11
		o.SizedPong = true
		o.OrderedOnly = true // as Minecraft does; go-raknet needs it
		if use.Servers != nil {
			o.suit(use.Servers)
		}
		return New(o)
	},
	Probes: true,
}

// Settings are the options in the configuration.
type Settings struct {
	Versions   []uint8        `toml:"versions" set:""`                    // accepted from clients; empty: the dialect's
	MaxMTU     uint16         `toml:"max_mtu" min:"576" max:"1492"`       // bytes, IP and UDP headers included
	Pong       string         `toml:"pong" max:"400"`                     // server list text: RakNet's own limit
	MaxMessage units.Size     `toml:"max_message" min:"1KiB" max:"64MiB"` // of one message
	MaxParts   uint16         `toml:"max_parts" min:"0" max:"65535"`      // of one message to a server; 0: the dialect's
	Timeout    units.Duration `toml:"timeout" min:"1s" max:"5m"`          // silence of a peer

	CookieMode   CookieMode `toml:"cookie_mode"`   // for clients' cookies
	CookieSecret units.Key  `toml:"cookie_secret"` // shared with the other hosts that give or check cookies
}

// Bounds on the parts of a message for servers. go-raknet blocks our address for a message of more than 512 parts.
// RakLib acknowledges a message of 128 or more and drops it.
const (
	goRaknetParts = 500
	rakLibParts   = 127
)

// profile is what the servers of a library in server_library take. Forms that some library punishes and none needs go
// to no server: empty messages, first bytes of RakNet's own messages, unused channels, split messages of one part.
type profile struct {
	bits   bool  // messages and passwords may end within a byte
	blocks bool  // it blocks an address for a datagram of a wrong form
	keeps  bool  // it takes versions other than its own, or ignores them
	only   uint8 // the only version that it takes; 0: not known
	parts  int   // of a message; 0: as configured
}

// profiles are those of the known libraries. Only C++ RakNet is known never to block an address.
var profiles = map[string]profile{
	"stock":      {bits: true, keeps: true, parts: math.MaxInt},
	"go-raknet":  {blocks: true, only: 11},
	"cloudburst": {blocks: true, keeps: true},
	"raklib":     {blocks: true, keeps: true},
}

// suit fits the options to an upstream's servers. Servers of Bedrock may be of any library. An unknown one may be
// go-raknet, so it hears other versions only if the operator has chosen them.
func (o *Options) suit(s *registry.Servers) {
	p, known := profiles[s.Library]
	if !known {
		p.keeps = !slices.Equal(o.Versions, usualVersions) && !slices.Equal(o.Versions, bedrockVersions)
	}
	o.Bits, o.KeepVersion, o.OnlyVersion = p.bits, p.keeps, p.only
	o.Blocks = p.blocks || !p.bits && o.SizedPong
	o.MaxParts = cmp.Or(p.parts, o.MaxParts)
}

// Versions that our server side takes by default.
var usualVersions, bedrockVersions = []uint8{6, 9, 10, 11}, []uint8{9, 10, 11}

func defaultSettings(versions ...uint8) *Settings {
	return &Settings{
		Versions:   append([]uint8{}, versions...),
		MaxMTU:     1492,
		CookieMode: CookiesPrivate,
		MaxMessage: 2 * units.MiB,
		Timeout:    units.Duration(10 * time.Second),
	}
}

// Check implements registry.Checker.
func (s *Settings) Check(r registry.Report) {
	r.Key("cookie_secret", &s.CookieSecret, fmt.Sprintf("cookie_mode = %q", s.CookieMode), s.CookieMode.sharesSecret())
}

// bedrockName is the name of Minecraft's dialect.
const bedrockName = "bedrock"

// with returns the Options for a use of a dialect.
func (s *Settings) with(name string, use registry.Use) Options {
	versions, parts := usualVersions, uint16(goRaknetParts)
	if name == bedrockName {
		versions, parts = bedrockVersions, rakLibParts
	}
	if len(s.Versions) > 0 {
		versions = s.Versions
	}
	o := Options{
		Name:        name,
		Versions:    slices.Clone(versions),
		DialVersion: 6,
		GUID:        use.GUID,
		Seed:        use.Seed,
		Pong:        []byte(s.Pong),
		PongText:    use.Pong,
		MaxMTU:      int(s.MaxMTU) - use.Headroom,
		MaxMessage:  int(s.MaxMessage),
		MaxParts:    int(cmp.Or(s.MaxParts, parts)),
		MaxQueued:   use.Queue,
		MaxAssembly: max(8<<20, stockPriorities*2*int(s.MaxMessage)+1<<20),
		MaxHeld:     max(heldFor(use.Queue), int(s.MaxMessage)),
		Timeout:     time.Duration(s.Timeout),

		HandshakeTimeout: use.Handshake,
	}
	o.Cookies, o.CookieSecret = s.cookies(use.Servers)
	return o
}

// stockPriorities is the number of largest messages that a stock peer may have under way: one of each priority. Their
// parts take up to twice their bytes, and the next messages may wait for one lost part of them.
const stockPriorities = 4

// heldFor returns the bytes of messages that may wait for an earlier one, beside a queue to the other side: all of them
// must find room in the quarter of it that the Relay keeps free, and in another. The default queue is 4 MiB.
func heldFor(queue int) int {
	const most = 4 << 20
	if queue == 0 {
		return most
	}
	return min(most, queue/2)
}

// cookies returns how clients prove their address to us, or how we prove ours to the servers that we dial.
func (s *Settings) cookies(to *registry.Servers) (mode CookieMode, secret [32]byte) {
	if to == nil {
		return s.CookieMode, s.CookieSecret.Bytes()
	}
	if err := mode.UnmarshalText([]byte(to.Cookies)); err != nil || mode == CookiesActive {
		return CookiesPrivate, secret // a client does not notice active cookies
	}
	return mode, to.Secret
}

// cookieModes holds the modes' names in the configuration.
var cookieModes = [...]string{
	CookiesPrivate: "private", CookiesNone: "none", CookiesActive: "active", CookiesOffloaded: "offloaded",
	CookiesOffloadedPSK: "offloaded_psk",
}

var errCookieMode = errors.New("not a cookie mode")

// String returns the mode's name in the configuration.
func (m CookieMode) String() string { return cookieModes[m] }

// UnmarshalText reads String's form.
func (m *CookieMode) UnmarshalText(text []byte) error {
	i := slices.Index(cookieModes[:], string(text))
	if i < 0 {
		return errCookieMode
	}
	*m = CookieMode(i)
	return nil
}

// Choices lists the modes that UnmarshalText reads.
func (CookieMode) Choices() []string { return cookieModes[:] }

// sharesSecret reports whether Options.CookieSecret is in use.
func (m CookieMode) sharesSecret() bool { return m == CookiesActive || m == CookiesOffloadedPSK }
