package decode

import (
	"strings"

	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/codec/rtype"
	"tidegate/codec/rudp"
)

// describe is how every codec explains a datagram of one conversation: in one line, and each message in it. An error
// says that the datagram is not of the protocol, or only in part.
type describe func(fromServer bool, datagram []byte) (text string, messages []string, err error)

// protocol is one that captures are explained in.
type protocol struct {
	name  string
	opens func(datagram []byte) bool // whether a client could begin with it
	begin func() describe            // for one conversation
	// prefix is the size of the number before each message on a stream; 0 where the protocol has no streams.
	prefix int
	// vague says that many bytes could be a message of it: DNS looks like it now and then.
	vague bool
}

// protocols is the list of them. Where a conversation could be of several, the first is meant: those that are hardest
// to mistake for another come first.
var protocols = []protocol{
	{"raknet", raknet.New(raknet.Options{}).Sniff, func() describe { return raknet.NewDescriber().Describe }, 0, false},
	{"rudp", rudp.New(rudp.Options{}).Sniff, func() describe { return describeRUDP }, 0, false},
	{"riptide-2.2", riptide.New(riptide.Options{Version: riptide.V22}).Sniff, describeRiptide(riptide.V22), 4, true},
	{"riptide-2.0", riptide.New(riptide.Options{Version: riptide.V20}).Sniff, describeRiptide(riptide.V20), 2, true},
	{"rtype", rtype.New(rtype.Options{}).Sniff, func() describe { return rtype.NewDescriber().Describe }, 0, true},
	{"rtype-final", rtype.New(rtype.Options{Dialect: rtype.GameLast}).Sniff, func() describe {
		return rtype.NewLastDescriber().Describe
	}, 0, true},
}

// Protocols are the names of all protocols.
func Protocols() (names []string) {
	for i := range protocols {
		names = append(names, protocols[i].name)
	}
	return names
}

func describeRiptide(v riptide.Version) func() describe {
	return func() describe {
		return func(fromServer bool, d []byte) (string, []string, error) { return riptide.Describe(v, fromServer, d) }
	}
}

func describeRUDP(_ bool, d []byte) (string, []string, error) { return rudp.Describe(d) }

// named is the protocol that a name of ours or of a capture means, or nil: Riptide 2.1.0 to 2.2.1 are one.
func named(name string) *protocol {
	if strings.HasPrefix(name, "riptide-2.1") || strings.HasPrefix(name, "riptide-2.2") {
		name = "riptide-2.2"
	}
	for i := range protocols {
		if protocols[i].name == name {
			return &protocols[i]
		}
	}
	return nil
}
