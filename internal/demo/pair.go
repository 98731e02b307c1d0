package demo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/each"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/words"
)

// Absent names the protocols that the demo leaves out, with the reason.
var Absent = map[string]string{
	"rtype-0.0.1": "its clients only press keys",
	"rtype-final": "its clients wait in a lobby, which the demo's world does not have",
}

// available lists the protocols of clients and game servers that the demo can play: every protocol, and then every
// protocol with streams again over TCP. The names are those of the configuration, with the suffix "+tcp" over TCP.
var available = func() (all []codec.Protocol) {
	for _, d := range protocols.All {
		all = append(all, d.NewCalm(registry.Use{}))
	}
	for _, d := range protocols.All {
		if d.Stream != nil {
			p := d.NewCalm(registry.Use{Stream: true})
			s := stream{p, *p.Spec(), d.Stream.Prefix}
			s.spec.Name += overTCP
			all = append(all, s)
		}
	}
	return slices.DeleteFunc(all, func(p codec.Protocol) bool { return Absent[p.Spec().Name] != "" })
}()

// goRakNet is the protocol whose game server uses go-raknet. All other servers use our own codecs.
const goRakNet = "bedrock"

// Pair is the protocol of a demo's clients and that of its game server.
type Pair struct{ from, to codec.Protocol }

// NewPair makes a pair that the demo can play, of two protocols by their names or aliases.
func NewPair(from, to string) (p Pair, err error) {
	if p.from, err = protocolOf(from); err != nil {
		return p, fmt.Errorf("--from %w", err)
	}
	if p.to, err = protocolOf(to); err != nil {
		return p, fmt.Errorf("--to %w", err)
	}
	return p, nil
}

// protocolOf finds a protocol by its name, an alias or a version, which may have the suffix "+tcp".
func protocolOf(name string) (codec.Protocol, error) {
	plain, stream := strings.CutSuffix(name, overTCP)
	wanted := plain
	if d := protocols.Find(strings.ToLower(plain)); d != nil {
		wanted = d.Name
	}
	if stream {
		wanted += overTCP
	}
	if i := slices.IndexFunc(available, func(p codec.Protocol) bool { return p.Spec().Name == wanted }); i >= 0 {
		return available[i], nil
	}
	if because := Absent[wanted]; because != "" {
		return nil, fmt.Errorf("%q: want another protocol for the demo: %s", name, because)
	}
	names := Protocols()
	if near, ok := words.Nearest(name, names); ok {
		return nil, fmt.Errorf("%q: want a known protocol; did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("%q: want one of %s", name, strings.Join(names, ", "))
}

// MainPair returns the main job: Riptide clients on a RakNet server.
func MainPair() Pair {
	p, err := NewPair("riptide-2.2", goRakNet)
	if err != nil {
		panic(err) // both are in the list
	}
	return p
}

// Protocols returns the names that NewPair takes.
func Protocols() []string {
	return each.Of(available, func(p codec.Protocol) string { return p.Spec().Name })
}

// From returns the name of the clients' protocol.
func (p Pair) From() string { return p.from.Spec().Name }

// To returns the name of the server's protocol.
func (p Pair) To() string { return p.to.Spec().Name }

// String returns the pair for people.
func (p Pair) String() string { return p.From() + " to " + p.To() }

// IsMain reports whether this is the main job.
func (p Pair) IsMain() bool { return p == MainPair() }

// inWorld reports whether messages are R-Type's: if one side speaks R-Type, the other has to send R-Type's messages.
func (p Pair) inWorld() bool { return p.from.Spec().Closed || p.to.Spec().Closed }

// OverTCP reports whether the clients connect over TCP, where no datagrams are lost.
func (p Pair) OverTCP() bool {
	_, ok := p.from.(stream)
	return ok
}

// other returns the protocol on the other side of a given one.
func (p Pair) other(than codec.Protocol) codec.Protocol {
	if than == p.from {
		return p.to
	}
	return p.from
}

// saysGoodbye reports whether the clients' protocol has a goodbye.
func (p Pair) saysGoodbye() bool { return !p.from.Spec().Closed }

// mode returns the strongest mode of a protocol with the least order.
func mode(p codec.Protocol) codec.Mode {
	for _, m := range []codec.Mode{codec.Reliable, codec.ReliableOrdered, codec.UnreliableSequenced} {
		if p.Spec().Modes.Has(m) {
			return m
		}
	}
	return codec.Unreliable
}

// Promise is the delivery that a pair guarantees for its clients' strongest messages.
type Promise uint8

// Promises, the strongest first. No promise allows changed or invented messages.
const (
	ExactlyOnce Promise = iota // each message is answered exactly once
	AtLeastOnce                // each message reaches the server, perhaps several times; its answer may be lost
	Lossy                      // messages and answers may be lost; almost none are on a good link
)

// promises describes each promise: in a word, in the summary, and by its sign in the list of pairs.
var promises = [...]struct{ name, sentence, sign string }{
	{"exactly once", "each reliable message is answered, once and unchanged", "E"},
	{"at least once", "each reliable message reaches the server unchanged; its answer may be lost", "A"},
	{"lossy", "on a clean link nearly all messages are answered; none is changed or made up", "L"},
}

// String returns the promise for programs.
func (p Promise) String() string { return promises[p].name }

// Promise returns the promise of the pair.
func (p Pair) Promise() Promise {
	switch from, to := p.from.Spec().Modes, p.to.Spec().Modes; {
	case !from.AnyReliable():
		return Lossy
	case to.AnyReliable():
		return ExactlyOnce
	case to.Has(codec.Notify): // it reports losses to the sender, without resending
		return AtLeastOnce
	}
	return Lossy
}

// List returns all pairs as a matrix, at most 60 characters wide. The columns have the numbers of the rows.
func List() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Rows: the clients' protocol. Columns: the server's.\n")
	head := fmt.Sprintf("%18s", "")
	for i := range available {
		head += fmt.Sprintf("%3d", i+1)
	}
	line("%s", head)
	for i, from := range available {
		row := fmt.Sprintf("%2d %-15s", i+1, from.Spec().Name)
		for _, to := range available {
			row += fmt.Sprintf("%3s", promises[Pair{from, to}.Promise()].sign)
		}
		line("%s", row)
	}
	line("\n%s", `E  exactly once: both protocols resend
A  at least once: the server's protocol reports losses,
   and Tidegate resends
L  lossy: one of the protocols resends nothing`)
	line("\nThe game server of %s is go-raknet; others are our own.", goRakNet)
	line("Play one: tidegate demo --from rudp --to raknet")
	return b.String()
}

// stream is a protocol over TCP. Its frames are what the protocol calls datagrams. They differ in their length prefix.
type stream struct {
	codec.Protocol
	spec   codec.Spec
	prefix int // size of the length in bytes
}

// overTCP is the suffix of the names of protocols over TCP.
const overTCP = "+tcp"

// Spec implements codec.Protocol. The name has the suffix overTCP.
func (s stream) Spec() *codec.Spec { return &s.spec }

// listen opens a server of a protocol.
func listen[T any](e *endpoint.Endpoint[T], p codec.Protocol, at netip.AddrPort) (*endpoint.Listener, error) {
	if s, ok := p.(stream); ok {
		return e.ListenStream(p, at, endpoint.StreamOptions{Prefix: s.prefix})
	}
	return e.Listen(p, at, endpoint.SocketOptions{})
}

// dial connects a client of a protocol.
func dial[T any](
	e *endpoint.Endpoint[T], p codec.Protocol, to netip.AddrPort, identity uint64,
) (*endpoint.Conn[T], error) {
	if s, ok := p.(stream); ok {
		return e.DialStream(p, to, codec.Hello{Identity: identity}, endpoint.StreamOptions{Prefix: s.prefix})
	}
	return e.Dial(p, to, codec.Hello{Identity: identity}, endpoint.SocketOptions{})
}
