package setup

import (
	"cmp"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/codec/rtype"
	"tidegate/codec/rudp"
	"tidegate/internal/config"
	"tidegate/proxy"
)

// speaker makes a protocol.
type speaker func(c *config.Config, use use) codec.Protocol

// use is what one place in the configuration makes of a protocol.
type use struct {
	queue    int              // bytes that may wait for one peer
	stream   bool             // its datagrams go over TCP
	pong     func() []byte    // text for server lists; nil, or nothing: the configured one
	upstream *config.Upstream // whose servers are dialed; nil for players
}

// evidence is how a protocol knows a newcomer's datagram: the less, the surer.
type evidence int

const (
	byMagic    evidence = iota // 16 bytes that nobody else sends
	byChecksum                 // of the whole datagram
	byShape                    // a byte or a word that others may send as well
	byNothing                  // it takes everything
)

// protocol is one that Tidegate speaks, by its name in the configuration.
type protocol struct {
	name     string
	evidence evidence
	build    speaker
}

// Opaque is the name of the protocol that stands for any, to be relayed and not terminated.
const Opaque = "any"

// protocols is the list of them.
var protocols = []protocol{
	{"raknet", byMagic, newStockRakNet},
	{"bedrock", byMagic, newBedrock},
	{"riptide-2.0", byShape, newRiptide(riptide.V20)},
	{"riptide-2.2", byShape, newRiptide(riptide.V22)},
	{"rudp", byChecksum, newRUDP},
	{"rtype", byShape, newRType(rtype.Auto)},
	{"rtype-0.0.1", byShape, newRType(rtype.Document)},
	{"rtype-16", byShape, newRType(rtype.Game16)},
	{"rtype-32", byShape, newRType(rtype.Game32)},
	{"rtype-final", byShape, newRType(rtype.GameLast)},
	{Opaque, byNothing, func(*config.Config, use) codec.Protocol { return proxy.Any }},
}

// build makes the protocol of a name that the configuration has been checked for.
func build(name string, c *config.Config, use use) codec.Protocol {
	return byName(name).build(c, use)
}

// surestFirst orders the names of a listener's protocols so that none is taken for another that knows it less surely.
func surestFirst(names []string) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(byName(a).evidence, byName(b).evidence) })
	return sorted
}

func byName(name string) *protocol {
	for i := range protocols {
		if protocols[i].name == name {
			return &protocols[i]
		}
	}
	panic("protocol that is not in the list: " + name)
}

func newStockRakNet(c *config.Config, use use) codec.Protocol {
	return newRakNet("raknet", c, &c.RakNet, use, 6)
}

func newBedrock(c *config.Config, use use) codec.Protocol {
	return newRakNet("bedrock", c, &c.Bedrock, use, 11)
}

func newRakNet(name string, all *config.Config, c *config.RakNet, use use, dial uint8) codec.Protocol {
	mode, secret := cookies(c, use.upstream)
	return raknet.New(raknet.Options{
		Name:         name,
		Versions:     slices.Clone(c.Versions),
		DialVersion:  dial,
		GUID:         secrets.GUID,
		Seed:         secrets.Seed,
		Cookies:      mode,
		CookieSecret: secret,
		Pong:         []byte(c.Pong),
		PongText:     use.pong,
		SizedPong:    name == "bedrock",
		OrderedOnly:  name == "bedrock", // as Minecraft does; go-raknet needs it
		MaxMTU:       int(c.MaxMTU) - headerLen(use.upstream),
		MaxMessage:   int(c.MaxMessage),
		MaxQueued:    use.queue,
		MaxAssembly:  max(8<<20, 2*int(c.MaxMessage)), // the largest message, and the next behind it
		MaxHeld:      max(4<<20, int(c.MaxMessage)),
		Timeout:      time.Duration(c.Timeout),

		HandshakeTimeout: time.Duration(all.Limits.HandshakeTimeout),
	})
}

func newRiptide(version riptide.Version) speaker {
	return func(c *config.Config, use use) codec.Protocol {
		o := &c.Riptide
		return riptide.New(riptide.Options{
			Version:           version,
			HeartbeatInterval: time.Duration(o.Heartbeat),
			TimeoutTime:       time.Duration(o.Timeout),
			ConnectTimeout:    time.Duration(c.Limits.HandshakeTimeout),
			MaxAttempts:       o.ConnectAttempts,
			MaxPayload:        o.MaxPayload,
			MaxQueued:         use.queue,
			IgnoreQuality:     !o.QualityDisconnect,
			Stream:            use.stream,
		})
	}
}

func newRUDP(c *config.Config, use use) codec.Protocol {
	o := &c.RUDP
	return rudp.New(rudp.Options{
		AppID:       o.AppID,
		Rate:        o.Rate,
		MaxPayload:  o.MaxPayload,
		MaxJoined:   o.MaxJoined,
		MaxQueued:   use.queue,
		DialTimeout: time.Duration(o.ConnectTimeout),
		Seed:        secrets.Seed,
	})
}

func newRType(dialect rtype.Dialect) speaker {
	return func(c *config.Config, use use) codec.Protocol {
		o := &c.RType
		options := rtype.Options{
			Dialect:       dialect,
			Era:           map[config.Era]rtype.Era{config.EraEarly: rtype.Early, config.EraLate: rtype.Late}[o.Era],
			Components:    o.Components,
			Seed:          secrets.Seed,
			PingInterval:  time.Duration(o.PingInterval),
			PongTimeout:   time.Duration(o.PingTimeout),
			IdleTimeout:   time.Duration(o.IdleTimeout),
			ServerTimeout: time.Duration(o.ServerTimeout),
			HelloInterval: time.Duration(o.ConnectInterval),
			MaxHellos:     o.ConnectAttempts,
			Refresh:       time.Duration(o.Refresh),
			Copies:        o.InitialCopies,
			MaxQueued:     use.queue,
			MaxWorld:      int(o.MaxWorld),
			MaxRate:       o.MaxRate,
		}
		if dialect != rtype.Document && dialect != rtype.GameLast {
			options.Hello = []byte(o.Hello)
		}
		return rtype.New(options)
	}
}
