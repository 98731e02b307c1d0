package raknet

import (
	"cmp"
	"math"
	"slices"
)

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

// Suit fits the options to servers of a library: stock, go-raknet, cloudburst or raklib. Servers of Bedrock may be of
// any. An unknown one may be go-raknet, so it hears other versions only if the options have chosen them.
func (o *Options) Suit(library string) {
	p, known := profiles[library]
	if !known {
		usual := len(o.Versions) == 0 || slices.Equal(o.Versions, usualVersions)
		p.keeps = !usual && !slices.Equal(o.Versions, bedrockVersions)
	}
	o.Bits, o.KeepVersion, o.OnlyVersion = p.bits, p.keeps, p.only
	o.Blocks = p.blocks || !p.bits && o.SizedPong
	o.MaxParts = cmp.Or(p.parts, o.MaxParts)
}

// Bedrock returns the options of Minecraft: Bedrock Edition's dialect.
func Bedrock() Options {
	return Options{
		Name: "bedrock", Versions: slices.Clone(bedrockVersions), DialVersion: 11, SizedPong: true, MaxParts: rakLibParts,
		OrderedOnly: true, // as Minecraft does; go-raknet needs it
	}
}

// Versions that our server side takes by default.
var usualVersions, bedrockVersions = []uint8{6, 9, 10, 11}, []uint8{9, 10, 11}
