package setup

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/proxy/relay"
)

// Opaque is the name of the protocol that stands for any other. It can be relayed, but not terminated.
const Opaque = "any"

// opaque has no codec, so it is not in the list of protocols.
var opaque = registry.Descriptor{
	Name:     Opaque,
	Evidence: registry.ByNothing,
	Options:  func() any { return nil },
	New:      func(any, registry.Use) codec.Protocol { return relay.Any },
}

// Edge is the name of the protocol that players of Bedrock speak since its version 26.50, and its servers.
const Edge = "nethernet"

// edge has a codec for a part of the wire only, so it is not in the list of protocols.
var edge = registry.Descriptor{
	Name:     Edge,
	Evidence: registry.ByChecksum, // each message has one; a RakNet ping may look like it by chance
	Options:  func() any { return nil },
	New:      func(any, registry.Use) codec.Protocol { return relay.NetherNet },
}

// known returns all protocols that a listener or an upstream may name.
func known() []*registry.Descriptor { return append(slices.Clone(protocols.All), &edge, &opaque) }

// byName returns the descriptor of a protocol. The configuration has already checked the name.
func byName(name string) *registry.Descriptor {
	switch name {
	case Opaque:
		return &opaque
	case Edge:
		return &edge
	}
	return protocols.Find(name)
}

// build makes the protocol with a name for a listener or an upstream with tables of its own. Use has the process's
// secrets.
func build(name string, c *config.Config, own config.Options, use registry.Use) codec.Protocol {
	use.Handshake = time.Duration(c.Limits.HandshakeTimeout)
	d := byName(name)
	return d.New(own.Over(c.Options).Of(d), use)
}

// byEvidence sorts the names of a listener's protocols, strongest evidence first. So no protocol takes clients of
// another that recognises them more reliably.
func byEvidence(names []string) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(byName(a).Evidence, byName(b).Evidence) })
	return sorted
}

// Secrets are the seed of cookies and the proxy's GUID for RakNet peers. A successor takes them over, so that
// handshakes under way remain valid.
type Secrets struct {
	GUID uint64   `json:"guid"`
	Seed [32]byte `json:"seed"`
}

// NewSecrets returns random secrets. So a restart invalidates old cookies.
func NewSecrets() (s Secrets) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	_, _ = rand.Read(s.Seed[:])
	s.GUID = binary.LittleEndian.Uint64(b[:])
	return s
}

// in returns what one place in the configuration makes of a protocol, with the secrets.
func (s *Secrets) in(use registry.Use) registry.Use {
	use.GUID, use.Seed = s.GUID, s.Seed
	return use
}
