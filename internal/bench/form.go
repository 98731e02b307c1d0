package bench

import (
	"encoding/binary"
	"fmt"

	"tidegate/codec"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
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

// form describes a client's messages, such that they can cross to any other protocol: with an ID, and with a length
// where messages may be joined. docs/bridging.md#envelopes
type form struct {
	mode codec.Mode
	spec *codec.Spec
	head int // bytes before the stamp
}

// The ID of all messages, and the first byte of a packet's ID.
const (
	messageID  = 7
	packetByte = 0x86
)

// formOf returns the form of a protocol with its most reliable mode.
func formOf(p codec.Protocol) form {
	f := form{spec: p.Spec()}
	for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable, codec.Notify, codec.Unreliable} {
		if f.spec.Modes.Has(mode) {
			f.mode = mode
			break
		}
	}
	switch {
	case f.spec.IDs == codec.IDFirstByte:
		f.head = 3
	case f.spec.Joins:
		f.head = 4
	}
	return f
}

// message makes a message of b, which already contains the stamp.
func (f *form) message(b []byte) codec.Message {
	switch {
	case f.spec.IDs == codec.IDFirstByte:
		b[0] = packetByte
		binary.LittleEndian.PutUint16(b[1:], messageID)
	case f.spec.Joins:
		binary.LittleEndian.PutUint16(b, uint16(len(b)-2))
		binary.LittleEndian.PutUint16(b[2:], messageID)
	}
	return codec.Message{Payload: b, Mode: f.mode, ID: messageID, HasID: f.spec.IDs == codec.IDBeside}
}

// stamps gives each stamp in a payload to take.
func (f *form) stamps(b []byte, take func([]byte)) {
	for f.spec.Joins && len(b) > f.head {
		n := 2 + int(binary.LittleEndian.Uint16(b))
		if n > len(b) || n < f.head {
			return
		}
		take(b[f.head:n])
		b = b[n:]
	}
	if !f.spec.Joins && len(b) > f.head {
		take(b[f.head:])
	}
}
