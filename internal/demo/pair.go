package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/codec/rtype"
	"tidegate/codec/rudp"
	"tidegate/internal/netio"
)

const (
	// A game on bad links chooses these higher than Riptide's defaults, 5 attempts and 5 s without the answer to a
	// heartbeat.
	connectAttempts = 10
	timeout         = 15 * time.Second
	// rudpRate gives a busy machine time: RUDP ends a session after 33 packets without an acknowledgement.
	rudpRate = 30
)

// protocols are what players and game servers speak here. Their names are those of the configuration, with a
// "+tcp" where they go over TCP.
var protocols = []codec.Protocol{
	raknet.New(raknet.Options{}),
	raknet.New(raknet.Options{Name: goRakNet, DialVersion: 11, OrderedOnly: true}),
	newRiptide(riptide.V20, false),
	newRiptide(riptide.V22, false),
	rudp.New(rudp.Options{Rate: rudpRate}),
	rtype.New(rtype.Options{}),
	document,
	rtype.New(rtype.Options{Dialect: rtype.Game16}),
	late,
	newStream(newRiptide(riptide.V20, true), netio.LengthU16LE),
	newStream(newRiptide(riptide.V22, true), netio.LengthI32LE),
}

func newRiptide(v riptide.Version, overTCP bool) codec.Protocol {
	return riptide.New(riptide.Options{Version: v, Stream: overTCP, MaxAttempts: connectAttempts, TimeoutTime: timeout})
}

// Of R-Type's dialects, players of the document's press keys and do nothing else; those of the late game press none.
var (
	document = rtype.New(rtype.Options{Dialect: rtype.Document})
	late     = rtype.New(rtype.Options{Dialect: rtype.Game32})
)

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
	if p.pressesKeys() && p.has(late) {
		return p, fmt.Errorf("%s: nothing of what players do exists in both: those of %s only press keys, and those of %s "+
			"only send requests and updates (docs/protocols/rtype.md#dialects)", p, document.Spec().Name, late.Spec().Name)
	}
	return p, nil
}

func protocolOf(name string) (codec.Protocol, error) {
	i := slices.IndexFunc(protocols, func(p codec.Protocol) bool { return p.Spec().Name == name })
	if i < 0 {
		return nil, fmt.Errorf("protocol %q: want one of %s", name, strings.Join(Protocols(), ", "))
	}
	return protocols[i], nil
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
	names := make([]string, len(protocols))
	for i, p := range protocols {
		names[i] = p.Spec().Name
	}
	return names
}

// Pairs are all pairs that there are, by protocol of the players, then of the server.
func Pairs() []Pair {
	var all []Pair
	for _, from := range protocols {
		for _, to := range protocols {
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
func (p Pair) pressesKeys() bool { return p.has(document) }

func (p Pair) has(one codec.Protocol) bool { return p.from == one || p.to == one }

// OverTCP reports whether the players connect by TCP, where no datagrams are lost.
func (p Pair) OverTCP() bool { return isStream(p.from) }

// isFramed reports whether messages of one side may run together, and so need frames.
func (p Pair) isFramed() bool { return p.from.Spec().Joins || p.to.Spec().Joins }

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
