package relay

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
)

// oddStrangers are first datagrams of games that a listener for ENet cannot serve.
var oddStrangers = map[stats.Drop][]byte{
	stats.DropCompressed: append([]byte{0xcf, 0xff, 0x12, 0x34}, make([]byte, 30)...),
	stats.DropEncrypted:  append([]byte{0x16, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 1}, make([]byte, 100)...),
	stats.DropQuery:      []byte("\xff\xff\xff\xffgetinfo xxx"),
}

// TestStrangersAreNamed sends them: each has a reason of its own with the remedy, and passes the kernel's filter.
func TestStrangersAreNamed(t *testing.T) {
	protocol := enet.New(enet.Options{Seed: [32]byte{1}})
	w := newWorld(t, 1, simnet.Weather{}, protocol, defaultRoute(protocol))
	for why, datagram := range oddStrangers {
		if first := protocol.Spec().FirstBytes; !first.Has(datagram[0]) {
			t.Errorf("%v: the kernel drops the first byte %#x", why, datagram[0])
		}
		w.Inject(0, strangerAddr(1), listenerAddr, datagram)
		w.Run(time.Millisecond)
		if w.drops(why) != 1 || w.drops(stats.DropUnknownProtocol) != 0 {
			t.Errorf("%v: dropped %d times, and %d as unknown", why, w.drops(why), w.drops(stats.DropUnknownProtocol))
		}
	}
}

// TestRelayTakesCompressed: a relay for ENet passes compressed datagrams on.
func TestRelayTakesCompressed(t *testing.T) {
	protocol := enet.New(enet.Options{Seed: [32]byte{1}})
	route := defaultRoute(protocol)
	route.Mode = policy.ModeRelay
	w := newWorld(t, 1, simnet.Weather{}, protocol, route)
	var got [][]byte
	w.SetTap(func(_, to netip.AddrPort, d []byte) {
		if to == serverAddr {
			got = append(got, slices.Clone(d))
		}
	})
	w.Inject(0, strangerAddr(1), listenerAddr, oddStrangers[stats.DropCompressed])
	w.Run(time.Millisecond)
	if len(got) != 1 || w.drops(stats.DropCompressed) != 0 {
		t.Errorf("the server gets %d datagrams", len(got))
	}
}

// TestCompressingServerIsNamed: the answer of a server that compresses is no plain surprise.
func TestCompressingServerIsNamed(t *testing.T) {
	protocol := enet.New(enet.Options{Seed: [32]byte{1}})
	w := newWorld(t, 1, simnet.Weather{}, protocol, defaultRoute(protocol))
	w.SetTap(func(from, _ netip.AddrPort, d []byte) {
		if from == serverAddr {
			d[0] |= 0x40
		}
	})
	w.join(codec.Hello{})
	w.Run(time.Second)
	if w.drops(stats.DropCompressed) == 0 {
		t.Error("a compressed VerifyConnect is not counted as compressed")
	}
}
