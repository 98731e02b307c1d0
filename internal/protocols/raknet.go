package protocols

import (
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/codec/raknet"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// RakNet describes RakNet 4.081 and SLikeNet, and Bedrock the dialect of Minecraft: Bedrock Edition. RakNet's Explain
// explains both.
var (
	RakNet  = raknetOf("raknet", raknet.Options{})
	Bedrock = raknetOf("bedrock", raknet.Bedrock(), "minecraft")
)

func raknetOf(name string, o raknet.Options, aliases ...string) registry.Descriptor {
	d := registry.Descriptor{
		Name:     name,
		Aliases:  aliases,
		Evidence: registry.ByMagic,
		Table:    "raknet",
		Busy:     raknet.Busy,
		Options: func() any {
			return &RakNetSettings{
				Versions: []uint8{}, MaxMTU: 1492, MaxMessage: 2 * units.MiB, Timeout: units.Duration(10 * time.Second),
			}
		},
		New: func(options any, use registry.Use) codec.Protocol {
			return raknet.New(options.(*RakNetSettings).with(o, use))
		},
		Probes: true,
	}
	if name == "raknet" {
		d.Explain = func(m *explain.Memory) explain.Conversation { return raknet.New(o).Explain(m) }
	}
	return d
}

// RakNetSettings are the options in the configuration.
type RakNetSettings struct {
	Versions   []uint8        `toml:"versions" set:""`                    // accepted from clients; empty: the dialect's
	MaxMTU     uint16         `toml:"max_mtu" min:"576" max:"1492"`       // bytes, IP and UDP headers included
	Pong       string         `toml:"pong" max:"400"`                     // server list text: RakNet's own limit
	MaxMessage units.Size     `toml:"max_message" min:"1KiB" max:"64MiB"` // of one message
	MaxParts   uint16         `toml:"max_parts" min:"0" max:"65535"`      // of one message to a server; 0: the dialect's
	Timeout    units.Duration `toml:"timeout" min:"1s" max:"5m"`          // silence of a peer

	CookieMode   raknet.CookieMode `toml:"cookie_mode"`   // for clients' cookies
	CookieSecret units.Key         `toml:"cookie_secret"` // shared with the other hosts that give or check cookies
}

// Check implements registry.Checker.
func (s *RakNetSettings) Check(r registry.Report) {
	shares := s.CookieMode == raknet.CookiesActive || s.CookieMode == raknet.CookiesOffloadedPSK
	r.Key("cookie_secret", &s.CookieSecret, fmt.Sprintf("cookie_mode = %q", s.CookieMode), shares)
}

// with returns the Options of a dialect for a use.
func (s *RakNetSettings) with(o raknet.Options, use registry.Use) raknet.Options {
	if len(s.Versions) > 0 {
		o.Versions = slices.Clone(s.Versions)
	}
	if s.MaxParts > 0 {
		o.MaxParts = int(s.MaxParts)
	}
	o.GUID, o.Seed = use.GUID, use.Seed
	o.Pong, o.PongText = []byte(s.Pong), use.Pong
	o.MaxMTU = int(s.MaxMTU) - use.Headroom
	o.MaxMessage = int(s.MaxMessage)
	o.MaxQueued = use.Queue
	o.MaxAssembly = max(8<<20, stockPriorities*2*int(s.MaxMessage)+1<<20)
	o.MaxHeld = max(heldFor(use.Queue), int(s.MaxMessage))
	o.Timeout, o.HandshakeTimeout = time.Duration(s.Timeout), use.Handshake
	o.Cookies, o.CookieSecret = s.cookies(use.Servers)
	if use.Servers != nil {
		o.Suit(use.Servers.Library)
	}
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
func (s *RakNetSettings) cookies(to *registry.Servers) (mode raknet.CookieMode, secret [32]byte) {
	if to == nil {
		return s.CookieMode, s.CookieSecret.Bytes()
	}
	if err := mode.UnmarshalText([]byte(to.Cookies)); err != nil || mode == raknet.CookiesActive {
		return raknet.CookiesPrivate, secret // a client does not notice active cookies
	}
	return mode, to.Secret
}
