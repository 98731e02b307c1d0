package setup

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay"
)

// Traits returns the facts about each protocol that the configuration checks need.
func Traits() map[string]config.Traits {
	all := make(map[string]config.Traits)
	for _, d := range known() {
		built := d.Default()
		spec := built.Spec()
		_, pings := built.(codec.Pinger)
		all[d.Name] = config.Traits{
			Ordered:   spec.Modes.Has(codec.ReliableOrdered),
			Sequenced: spec.Modes.Has(codec.UnreliableSequenced),
			Reliable:  spec.Modes.AnyReliable(),
			Reports:   spec.Modes.Has(codec.Notify),
			IDs:       spec.IDs == codec.IDBeside,
			FirstByte: spec.IDs == codec.IDFirstByte,
			Modes:     spec.Modes,
			Channels:  spec.Channels,
			Joins:     spec.Joins,
			Closed:    spec.Closed,
			Pings:     pings,
			Opaque:    d == &opaque || d == &edge,
			Edge:      d == &edge,
			Stream:    d.Stream != nil,
			Inputs:    d.Inputs,
			Types:     d.Types,
			Openers:   spec.LoneOpenings,
			Server:    true,
			Client:    true,
		}
	}
	addOverlaps(all)
	return all
}

// addOverlaps records for each protocol the other protocols whose new clients it also accepts. A listener asks
// protocols with stronger evidence first, so only protocols with the same evidence are compared.
func addOverlaps(all map[string]config.Traits) {
	for _, d := range protocols.All {
		accepted := make(map[string]bool)
		for _, other := range protocols.All {
			if sniff := d.Default().Sniff; d != other && d.Evidence == other.Evidence && sniff(firstDatagram(other.Default())) {
				accepted[other.Name] = takesAll(sniff, all[other.Name].Openers)
			}
		}
		t := all[d.Name]
		t.Accepts = accepted
		all[d.Name] = t
	}
}

// firstDatagram returns a client's first datagram of a protocol.
func firstDatagram(p codec.Protocol) []byte {
	start := time.Unix(0, 0)
	server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
	datagram, _ := p.Dial(start, server, codec.Hello{}).Transmit(start, make([]byte, 0, codec.MaxDatagram))
	return datagram
}

// takesAll reports whether sniff accepts each of the bytes, alone in a datagram.
func takesAll(sniff func([]byte) bool, openers codec.ByteSet) bool {
	for b := range 256 {
		if openers.Has(byte(b)) && !sniff([]byte{byte(b)}) {
			return false
		}
	}
	return true
}

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

// mapOf returns a route's map. A number without a width is a byte at servers without IDs, and at players if none of the
// route's has IDs.
func mapOf(c *config.Config, r *config.Route) []bridge.Row {
	hasIDs := func(name string) bool { return byName(name).Default().Spec().IDs == codec.IDBeside }
	var players, servers bool
	for i := range c.Listeners {
		players = players || c.Listeners[i].Route == r.Name && slices.ContainsFunc(c.Listeners[i].Protocols, hasIDs)
	}
	for i := range c.Upstreams {
		servers = servers || c.Upstreams[i].Name == r.Upstream && hasIDs(c.Upstreams[i].Protocol)
	}
	form := func(f config.Form, ids bool) policy.Form {
		if ids {
			return f.Value()
		}
		return f.Value().AsByte()
	}
	all := make([]bridge.Row, 0, len(r.Map))
	for i := range r.Map {
		from := &r.Map[i]
		row := bridge.Row{
			Client: form(from.Client, players), Server: form(from.Server, servers), From: from.From.Value(),
			Channel: from.Channel,
		}
		if from.Mode != "" {
			row.Mode = new(codec.Mode(from.Mode.Value()))
		}
		all = append(all, row)
	}
	return all
}

// transcoding returns a function that makes the translators of a route's two directions.
func transcoding(r *config.Route) func(near, far codec.Protocol) bridge.Translator {
	schemas := make(map[uint16]riptide.Schema, len(r.Messages))
	for _, m := range r.Messages {
		schema, err := riptide.ParseSchema(m.Types)
		if err != nil {
			continue // the types of a route without translation are not checked
		}
		schemas[uint16(m.ID)] = schema
	}
	return func(near, far codec.Protocol) bridge.Translator {
		client, ok := near.(*riptide.Protocol)
		server, also := far.(*riptide.Protocol)
		if !ok || !also || client.Version() == server.Version() {
			return nil
		}
		drops := !r.Undeclared.Is(policy.UnmappedPasses)
		transcode := riptide.NewTranscoder(client.Version(), server.Version(), schemas, drops)
		return transcoder{transcode, describeTranslation(len(schemas), drops)}
	}
}

// describeTranslation describes the treatment of messages when the types of some IDs are declared.
func describeTranslation(declared int, drops bool) string {
	others := "passed as they are"
	if drops {
		others = "dropped"
	}
	switch declared {
	case 0:
		return "all messages " + others + ": no [[route.message]] declares types"
	case 1:
		return "messages of 1 declared ID translated, all others " + others
	}
	return fmt.Sprintf("messages of %d declared IDs translated, all others %s", declared, others)
}

// transcoder adapts riptide.Transcoder to bridge.Translator.
type transcoder struct {
	*riptide.Transcoder
	description string
}

// String describes the treatment of messages.
func (t transcoder) String() string { return t.description }

var translations = [...]bridge.Translation{
	riptide.Transcoded: bridge.Translated, riptide.Passed: bridge.Passed,
	riptide.Dropped: bridge.Undeclared, riptide.Unfit: bridge.Untranslatable,
}

// Translate converts one message.
func (t transcoder) Translate(dst []byte, m codec.Message) (payload []byte, pad uint8, made bridge.Translation) {
	payload, pad, verdict := t.Transcode(dst, &m)
	return payload, pad, translations[verdict]
}
