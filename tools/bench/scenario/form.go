package scenario

import (
	"bytes"
	"fmt"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/proxy/bridge"
)

// messageProtocols are the protocols of clients and game servers. R-Type is left out: its messages cannot return from
// another protocol.
var messageProtocols = func() (all []codec.Protocol) {
	for i, d := range protocols.All {
		use := registry.Use{Seed: [32]byte{byte(i + 1)}}
		p := d.NewCalm(use)
		if d.Name == "rudp" { // its rate limit would be the result of a measurement
			p = d.New(d.Options(), registry.Use{})
		}
		if !p.Spec().Closed {
			all = append(all, p)
		}
	}
	return all
}()

// bedrock is RakNet of version 11, the version of go-raknet.
const bedrock = "bedrock"

// protocolNamed returns the protocol with a name.
func protocolNamed(name string) (codec.Protocol, error) {
	var names []string
	for _, p := range messageProtocols {
		if p.Spec().Name == name {
			return p, nil
		}
		names = append(names, p.Spec().Name)
	}
	return nil, fmt.Errorf("%q: %w: want one of %v", name, ErrOptions, names)
}

// form describes a client's messages on a route to another protocol. Each message has an ID, so that it can cross to
// any protocol, and the envelope of the route. docs/bridging.md#envelopes
type form struct {
	mode     codec.Mode
	wrapping bridge.Wrapping
	prefix   []byte // before each body: the instruction of R-Type
	head     int    // bytes before the stamp
	wrapped  []byte // memory of the latest message
}

// The ID of all messages, and the first byte of a packet's ID.
const (
	messageID  = 7
	packetByte = 0x86
)

// envelopes returns the envelopes of the route between two protocols, as bridgeConfig configures it.
func envelopes(from, to *codec.Spec) *bridge.Options {
	o := &bridge.Options{PacketID: packetByte}
	if from.Name != to.Name || from.Joins {
		o.Envelope = policy.EnvelopeFramed
	}
	return o
}

// formOf returns the form of a client's protocol, in its most reliable mode, on a route to a server's protocol.
func formOf(from, to codec.Protocol) form {
	own, other := from.Spec(), to.Spec()
	options := envelopes(own, other)
	if own.IDs != codec.IDNowhere || own.Joins { // a game on this protocol writes IDs, also to its own protocol
		other = &codec.Spec{IDs: codec.IDBeside}
	}
	f := form{wrapping: bridge.WrappingOf(own, other, options)}
	for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable, codec.Notify, codec.Unreliable} {
		if own.Modes.Has(mode) {
			f.mode = mode
			break
		}
	}
	if own.Closed {
		f.wrapping, f.prefix = bridge.WrappingOf(own, own, options), rtypeUpdate
	}
	f.head = len(f.message(nil).Payload)
	return f
}

// R-Type carries only its own instructions. A server makes entity 1, and both sides update its component 0.
var (
	rtypeCreate = []byte{0, 0, 0, 0, 1}
	rtypeUpdate = []byte{3, 0, 0, 0, 1, 0, 0}
)

// message returns the message of a body, which begins with a stamp. It is valid until the next call.
func (f *form) message(body []byte) codec.Message {
	if f.prefix != nil {
		body = append(f.prefix[:len(f.prefix):len(f.prefix)], body...)
	}
	m := f.wrapping.Wrap(f.wrapped[:0], codec.Message{Payload: body, Mode: f.mode, ID: messageID})
	f.wrapped = m.Payload
	return m
}

// stamps gives each message that begins with a stamp to take.
func (f *form) stamps(m *codec.Message, take func(codec.Message)) {
	if f.prefix != nil {
		if b, ok := bytes.CutPrefix(m.Payload, f.prefix); ok {
			take(codec.Message{Payload: b})
		}
		return
	}
	_ = f.wrapping.Unwrap(*m, take) // a message in another form has no stamp
}
