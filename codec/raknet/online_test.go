package raknet

import (
	"strings"
	"testing"

	"tidegate/codec/codectest"
)

// unassigned returns the hex of a list of n unassigned addresses.
func unassigned(n int) string { return strings.Repeat("04ffffffff0000", n) }

func TestConnectionRequest(t *testing.T) {
	noPassword := func(n int) bool { return n >= minConnectionRequestSize }
	const head = "09000660c47c9a997b000000000000001501"
	proof, identity := strings.Repeat("e7", proofSize), strings.Repeat("1d", identitySize)
	proved := &connectionRequest{guid: 0x660c47c9a997b, time: 0x15, encrypts: true,
		proof: [proofSize]byte(codectest.Unhex(t, proof)), password: []byte{0xaa}}
	identified := *proved
	identified.identity = codectest.Unhex(t, identity)
	for _, g := range []golden{
		{name: "stock", hex: "09000660c47c9a997b000000000000001500",
			want: &connectionRequest{guid: 0x660c47c9a997b, time: 0x15, password: []byte{}}},
		{name: "stock with a password", hex: "09000660c4837c12e600000000000000150077726f6e67",
			want: &connectionRequest{guid: 0x660c4837c12e6, time: 0x15, password: []byte("wrong")}, whole: noPassword},
		{name: "with a proof", hex: head + proof + "00aa", want: proved,
			whole: func(n int) bool { return n >= minConnectionRequestSize+proofSize+1 }},
		{name: "with an identity", hex: head + proof + "01" + identity + "aa", want: &identified,
			whole: func(n int) bool { return n >= minConnectionRequestSize+proofSize+1+identitySize }},
	} {
		t.Run(g.name, g.run)
	}
}

// shorterList reports the lengths at which a truncated message is one with a shorter list of IPv4 addresses. fixed is
// its length without any.
func shorterList(fixed int) func(int) bool {
	return func(n int) bool { return n >= fixed && (n-fixed)%address4Size == 0 }
}

func TestConnectionRequestAccepted(t *testing.T) {
	const times = "0000000000000015" + "00000000000002d3"
	client, client6 := written("127.0.0.1:60642", unknownFamily), written("[::1]:48637", 10)
	for _, g := range []golden{
		{name: "stock", hex: "10" + "0480fffffeece20000" + "0480fffffea41a" + unassigned(9) + times,
			want:    &connectionRequestAccepted{client: client, addresses: 10, requestTime: 0x15, replyTime: 0x2d3},
			written: "10" + "0480fffffeece20000" + unassigned(10) + times, whole: shorterList(26)},
		{name: "go-raknet", hex: "10" + "0480fffffeece20000" + unassigned(20) + "0000000000000015" + "000001a1fd1009ee",
			want:  &connectionRequestAccepted{client: client, addresses: 20, requestTime: 0x15, replyTime: 0x1a1fd1009ee},
			whole: shorterList(26)},
		{name: "stock over IPv6", hex: "10" + "060a00bdfd" + loopback6Hex + "0000" + "0480fffffea484" + unassigned(9) + times,
			want:    &connectionRequestAccepted{client: client6, addresses: 10, requestTime: 0x15, replyTime: 0x2d3},
			written: "10" + "060a00bdfd" + loopback6Hex + "0000" + unassigned(10) + times, whole: shorterList(48)},
	} {
		t.Run(g.name, g.run)
	}
}

func TestNewIncomingConnection(t *testing.T) {
	server := written("127.0.0.1:42123", unknownFamily)
	for _, g := range []golden{
		{name: "stock", hex: "13" + "0480fffffea48b" + "0480fffffea1b7" + unassigned(9) +
			"00000000000002d3" + "000000000000001f",
			want:    &newIncomingConnection{server: server, addresses: 10, serverTime: 0x2d3, clientTime: 0x1f},
			written: "13" + "0480fffffea48b" + unassigned(10) + "00000000000002d3" + "000000000000001f", whole: shorterList(24)},
		{name: "go-raknet", hex: "13" + "0480fffffea48b" + unassigned(20) + "00000000000002c4" + "000001a1fd0fe10e",
			want:  &newIncomingConnection{server: server, addresses: 20, serverTime: 0x2c4, clientTime: 0x1a1fd0fe10e},
			whole: shorterList(24)},
	} {
		t.Run(g.name, g.run)
	}
}

func TestConnectedPingAndPong(t *testing.T) {
	for _, g := range []golden{
		{name: "ping", hex: "00000000000000001f", want: &connectedPing{time: 0x1f}},
		{name: "pong", hex: "03000000000000001f00000000000002e7", want: &connectedPong{pingTime: 0x1f, pongTime: 0x2e7}},
	} {
		t.Run(g.name, g.run)
		if err := blank(g.want).parse(append(codectest.Unhex(t, g.hex), 0)); err == nil {
			t.Errorf("%s with a byte too many was read", g.name)
		}
	}
}
