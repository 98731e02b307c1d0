package protocols_test

import (
	"os"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// fuzzQueue bounds the bytes that wait for one peer, so that a story can reach the bound.
const fuzzQueue = 64 << 10

// subjects returns every protocol, in the order of All.
func subjects() []codectest.Subject {
	var all []codectest.Subject
	for _, d := range protocols.All {
		server := d.New(d.Options(), registry.Use{Queue: fuzzQueue, Seed: [32]byte{1}})
		client := d.New(d.Options(), registry.Use{Queue: fuzzQueue, Seed: [32]byte{2}, Servers: new(registry.Servers)})
		all = append(all, codectest.Subject{
			Name: d.Name, Queue: fuzzQueue,
			New: func() (codec.Protocol, codec.Protocol) { return server, client },
		})
	}
	return all
}

func captures(f *testing.F) []codectest.Capture {
	return codectest.Captures(f, os.DirFS("../../codec"))
}

// FuzzServerSide fuzzes our side of a client's connection, for every protocol.
func FuzzServerSide(f *testing.F) { codectest.FuzzConns(f, subjects(), captures(f), false) }

// FuzzClientSide fuzzes our side of a connection to a server, for every protocol.
func FuzzClientSide(f *testing.F) { codectest.FuzzConns(f, subjects(), captures(f), true) }

// defenceless are the protocols whose sessions one forged datagram can harm, with the reason.
var defenceless = map[string]string{
	"rtype": "a datagram from a player's address is the player's", "rtype-0.0.1": "as rtype", "rtype-16": "as rtype",
	"rtype-32": "as rtype", "rtype-final": "as rtype",
}

// FuzzForged fuzzes one forged datagram in a session, for every protocol that promises to survive it.
func FuzzForged(f *testing.F) {
	all := slices.DeleteFunc(subjects(), func(s codectest.Subject) bool { return defenceless[s.Name] != "" })
	codectest.FuzzForged(f, all, captures(f))
}
