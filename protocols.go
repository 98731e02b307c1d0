package main

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/config"
)

// protocols is the list of what Tidegate speaks, by the names of the configuration.
var protocols = []struct {
	name  string
	build func(c *config.Config, queue int) codec.Protocol
}{
	{"raknet", func(c *config.Config, queue int) codec.Protocol { return newRakNet("raknet", &c.RakNet, queue, 6) }},
	{"bedrock", func(c *config.Config, queue int) codec.Protocol { return newRakNet("bedrock", &c.Bedrock, queue, 11) }},
	{"riptide-2.2", newRiptide},
}

// build makes the protocol of a name that the configuration has been checked for. queue bounds the bytes that wait for
// one peer.
func build(name string, c *config.Config, queue int) codec.Protocol {
	for _, p := range protocols {
		if p.name == name {
			return p.build(c, queue)
		}
	}
	panic("protocol without a builder: " + name)
}

// traits are what the configuration must know of each protocol.
func traits() map[string]config.Traits {
	all := make(map[string]config.Traits, len(protocols))
	for _, p := range protocols {
		built := p.build(config.Default(), 0)
		modes := built.Modes()
		all[p.name] = config.Traits{
			Ordered:   modes.Has(codec.ReliableOrdered),
			Sequenced: modes.Has(codec.UnreliableSequenced),
			Reliable:  modes.Has(codec.Reliable) || modes.Has(codec.ReliableOrdered),
			IDs:       built.IDs() == codec.WordIDs,
			Server:    true,
			Client:    true,
		}
	}
	return all
}

// secrets are drawn once a process: a restart makes old cookies void.
var secrets = func() (s struct {
	guid uint64
	seed [32]byte
}) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	_, _ = rand.Read(s.seed[:])
	s.guid = binary.LittleEndian.Uint64(b[:])
	return s
}()

func newRakNet(name string, c *config.RakNet, queue int, dial uint8) codec.Protocol {
	return raknet.New(raknet.Options{
		Name:        name,
		Versions:    slices.Clone(c.Versions),
		DialVersion: dial,
		GUID:        secrets.guid,
		Seed:        secrets.seed,
		NoCookies:   !c.Cookies,
		Pong:        []byte(c.Pong),
		SizedPong:   name == "bedrock",
		OrderedOnly: name == "bedrock", // as Minecraft does; go-raknet needs it
		MaxMTU:      int(c.MaxMTU),
		MaxMessage:  int(c.MaxMessage),
		MaxQueued:   queue,
		Timeout:     time.Duration(c.Timeout),
	})
}

func newRiptide(c *config.Config, queue int) codec.Protocol {
	o := &c.Riptide
	return riptide.New(riptide.Options{
		Version:           riptide.V22,
		HeartbeatInterval: time.Duration(o.Heartbeat),
		TimeoutTime:       time.Duration(o.Timeout),
		MaxAttempts:       o.ConnectAttempts,
		MaxPayload:        o.MaxPayload,
		MaxQueued:         queue,
		IgnoreQuality:     !o.QualityDisconnect,
	})
}
