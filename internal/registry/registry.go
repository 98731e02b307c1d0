// Package registry says what Tidegate must know of a protocol to offer it. Each codec has a Descriptor; the list of
// them is in internal/protocols. Configuration, setup, decode, demo, the benchmarks and tests read that list.
package registry

import (
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/internal/units"
)

// Descriptor describes one protocol. It is data and shared: callers only read it.
type Descriptor struct {
	// Name is the protocol's name in the configuration. Aliases are further names, of versions that are the same on
	// the wire.
	Name    string
	Aliases []string
	// Evidence says how a new client's datagram is recognised.
	Evidence Evidence
	// Table is the name of the table with the protocol's options, which protocols may share.
	Table string
	// Options returns a pointer to the options at their defaults: a struct with a toml tag for each key. Protocols of
	// one Table have equal Options. See the tags below for bounds, and Checker for other rules.
	Options func() any
	// New makes the protocol. The options are what Options returns, changed by the user.
	New func(options any, use Use) codec.Protocol
	// Calm changes the options so that sessions live through bad weather and busy machines, in the demo and in tests.
	// Nil: the defaults do.
	Calm func(options any)
	// Stream says how the protocol's datagrams travel over TCP; nil: they do not.
	Stream *Stream
	// Probes says that the client side searches for the path's MTU, and so sends datagrams that must not be
	// fragmented.
	Probes bool
	// Busy returns for how long a server that has sent a datagram may still be reading what waits for it. Nil: unknown.
	Busy func(datagram []byte) time.Duration
	// Inputs names what clients can say and servers understand; nil: anything.
	Inputs []string
	// Types says what a type of value should be for this dialect to have it, or nothing if it has it. Nil: payloads
	// are the same in all dialects.
	Types func(name string) (want string)
	// Explain begins a conversation that is to be explained. Nil: another protocol's Explain explains this wire, too.
	Explain func(*explain.Memory) explain.Conversation
}

// Tags of the fields of options, beside toml.
//
//	default    the value of a key that is not stated, in tables of package config
//	min, max   bounds of a value, both allowed; of a text, bounds of its length in bytes
//	set        a list that holds each element only once
const (
	TagDefault = "default"
	TagMin     = "min"
	TagMax     = "max"
	TagSet     = "set"
)

// Checker is implemented by options with rules that tags cannot state.
type Checker interface{ Check(r Report) }

// Report takes faults of options. Keys are those of the protocol's table; a nil value means a key that is not stated.
type Report interface {
	// Fault reports a value that cannot be used. Want completes the sentence "want ...".
	Fault(key string, value any, want string)
	// Entry is Fault for an entry of a table at key.
	Entry(key, entry string, value any, want string)
	// Key checks a key that is needed or not because of another key, written as in the file. It reads the key from
	// its file.
	Key(key string, value *units.Key, because string, needed bool)
}

// Evidence is how a protocol recognises a new client's datagram. The smaller, the surer.
type Evidence uint8

// Kinds of evidence.
const (
	ByMagic    Evidence = iota // 16 bytes that no other protocol sends
	ByChecksum                 // of the whole datagram
	ByShape                    // a byte or a word that others may send as well
	ByNothing                  // it takes everything
)

// Stream says how datagrams travel over TCP: each with its length before it, little-endian.
type Stream struct {
	Prefix   int                   // size of the length in bytes: 2 or 4
	MaxFrame func(options any) int // size of the largest datagram
}

// Use is what one place in the configuration makes of a protocol. The zero value is good for tests.
type Use struct {
	Queue     int           // bytes that may wait for one peer; 0: the codec's default
	Stream    bool          // datagrams go over TCP
	Handshake time.Duration // bound on handshakes; 0: the codec's default
	Headroom  int           // bytes that each datagram leaves free for a PROXY protocol header
	Pong      func() []byte // text for server lists; nil, or no text: the configured one, if there is one
	GUID      uint64        // what the proxy calls itself; 0: derived from Seed
	Seed      [32]byte      // the secret from which proofs of address are made
	Servers   *Servers      // the servers that are dialed; nil: clients are listened to
}

// Servers are facts about the servers of an upstream.
type Servers struct {
	Cookies string // upstream.cookie_mode
	Secret  [32]byte
	Library string // upstream.server_library, or nothing
}

// Default makes the protocol with default options.
func (d *Descriptor) Default() codec.Protocol { return d.New(d.Options(), Use{}) }

// NewCalm makes the protocol with options that live through bad weather.
func (d *Descriptor) NewCalm(use Use) codec.Protocol { return d.New(d.calm(), use) }

func (d *Descriptor) calm() any {
	options := d.Options()
	if d.Calm != nil {
		d.Calm(options)
	}
	return options
}

// PressesKeys reports whether clients can only press keys.
func (d *Descriptor) PressesKeys() bool { return slices.Equal(d.Inputs, []string{"keys"}) }

// ShareInputs returns an error if a server of one protocol understands nothing that clients of the other can say.
func ShareInputs(from, to *Descriptor) error {
	says, takes := from.Inputs, to.Inputs
	shared := func(one string) bool { return slices.Contains(takes, one) }
	if says == nil || takes == nil || slices.ContainsFunc(says, shared) {
		return nil
	}
	keys, others := from.Name, to.Name
	if !from.PressesKeys() {
		keys, others = others, keys
	}
	return fmt.Errorf("%s to %s: the clients have no input in common: clients of %s only press keys, and clients of %s "+
		"only send requests and updates (docs/protocols/rtype.md#dialects)", from.Name, to.Name, keys, others)
}
