package demo

import (
	"fmt"
	"slices"
	"strings"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// Absent names the protocols that the demo leaves out, and why.
var Absent = map[string]string{
	"rtype-final": "its players wait in a lobby, and the demo's world has none",
}

// speakers lists what players and game servers speak here: every protocol, and then every protocol that goes over TCP, too.
// Their names are those of the configuration, with a "+tcp" where they go over TCP.
var speakers = func() (all []codec.Protocol) {
	for _, d := range protocols.All {
		if Absent[d.Name] == "" {
			all = append(all, d.NewCalm(registry.Use{}))
		}
	}
	for _, d := range protocols.All {
		if d.Stream != nil {
			all = append(all, newStream(d.NewCalm(registry.Use{Stream: true}), netio.PrefixOf(d.Stream.Prefix)))
		}
	}
	return all
}()

// goRakNet is the protocol whose game server is written on go-raknet. All others are our own codecs' server sides.
const goRakNet = "bedrock"

// Pair is what the players of a demo speak, and what their game server does.
type Pair struct{ from, to codec.Protocol }

// NewPair makes a pair of two protocols by their names.
func NewPair(from, to string) (p Pair, err error) {
	if p.from, err = protocolOf(from); err != nil {
		return p, fmt.Errorf("players: %w", err)
	}
	if p.to, err = protocolOf(to); err != nil {
		return p, fmt.Errorf("game server: %w", err)
	}
	if says, takes := inputs(p.from), inputs(p.to); says != nil && takes != nil && !shares(says, takes) {
		keys, others := p.From(), p.To()
		if !isKeys(says) {
			keys, others = others, keys
		}
		return p, fmt.Errorf("%s: nothing of what players do exists in both: those of %s only press keys, and those of %s "+
			"only send requests and updates (docs/protocols/rtype.md#dialects)", p, keys, others)
	}
	return p, nil
}

func protocolOf(name string) (codec.Protocol, error) {
	i := slices.IndexFunc(speakers, func(p codec.Protocol) bool { return p.Spec().Name == name })
	if i < 0 {
		return nil, fmt.Errorf("protocol %q: want one of %s", name, strings.Join(Protocols(), ", "))
	}
	return speakers[i], nil
}

// MainPair is the main job: Riptide players on a RakNet server.
func MainPair() Pair {
	p, err := NewPair("riptide-2.2", goRakNet)
	if err != nil {
		panic(err) // both are in the list above
	}
	return p
}

// Protocols are the names that NewPair takes.
func Protocols() []string {
	names := make([]string, len(speakers))
	for i, p := range speakers {
		names[i] = p.Spec().Name
	}
	return names
}

// Pairs are all pairs that there are, by protocol of the players, then of the server.
func Pairs() []Pair {
	var all []Pair
	for _, from := range speakers {
		for _, to := range speakers {
			if p, err := NewPair(from.Spec().Name, to.Spec().Name); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// From and To are the names of the two protocols.
func (p Pair) From() string { return p.from.Spec().Name }

// To is the name of the server's protocol.
func (p Pair) To() string { return p.to.Spec().Name }

// String is the pair in words.
func (p Pair) String() string { return p.From() + " to " + p.To() }

// IsMain reports whether this is the main job.
func (p Pair) IsMain() bool { return p == MainPair() }

// inWorld reports whether messages are R-Type's: where one side speaks it, the other has to say the same.
func (p Pair) inWorld() bool { return p.from.Spec().Closed || p.to.Spec().Closed }

// pressesKeys reports whether one side's players can only press keys.
func (p Pair) pressesKeys() bool { return isKeys(inputs(p.from)) || isKeys(inputs(p.to)) }

// inputs names what players of a protocol can say; nil: anything.
func inputs(p codec.Protocol) []string {
	d := protocols.Find(plainName(p))
	if d.Inputs == nil {
		return nil
	}
	return d.Inputs(d.Options())
}

// isKeys reports whether players can press keys and say nothing else.
func isKeys(inputs []string) bool { return slices.Equal(inputs, []string{"keys"}) }

func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// OverTCP reports whether the players connect by TCP, where no datagrams are lost.
func (p Pair) OverTCP() bool { return isStream(p.from) }

// isFramed reports whether messages of one side may run together, and so need frames.
func (p Pair) isFramed() bool { return p.from.Spec().Joins || p.to.Spec().Joins }

// other returns the protocol across from a given one.
func (p Pair) other(than codec.Protocol) codec.Protocol {
	if than == p.from {
		return p.to
	}
	return p.from
}

// saysGoodbye reports whether the players have a word for leaving.
func (p Pair) saysGoodbye() bool { return !p.from.Spec().Closed }

func isReliable(p codec.Protocol) bool { return p.Spec().Modes.AnyReliable() }

// reports tells whether the sender of a message learns what became of it, and nothing more is done.
func reports(p codec.Protocol) bool { return !isReliable(p) && p.Spec().Modes.Has(codec.Notify) }

// mode is the strongest mode of a protocol that asks for no more order than it must.
func mode(p codec.Protocol) codec.Mode {
	for _, m := range []codec.Mode{codec.Reliable, codec.ReliableOrdered, codec.UnreliableSequenced} {
		if p.Spec().Modes.Has(m) {
			return m
		}
	}
	return codec.Unreliable
}
