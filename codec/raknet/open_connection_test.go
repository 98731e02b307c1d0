package raknet

import (
	"strings"
	"testing"

	"tidegate/codec/codectest"
)

// request2 is openConnectionRequest2 with its server's knowledge, so that it fits wireType.
type request2 struct {
	*openConnectionRequest2
	cookie bool
}

func (r request2) parse(b []byte) error { return r.openConnectionRequest2.parse(b, r.cookie) }

func TestOpenConnectionRequest1(t *testing.T) {
	probe := func(length int) string {
		return "05" + magicHex + "06" + strings.Repeat("00", length-minRequest1Size)
	}
	anyLength := func(n int) bool { return n >= minRequest1Size }
	for _, g := range []golden{
		{name: "1492", hex: probe(1464), want: &openConnectionRequest1{version: 6, length: 1464}, whole: anyLength},
		{name: "576", hex: probe(548), want: &openConnectionRequest1{version: 6, length: 548}, whole: anyLength},
		{name: "not padded", hex: probe(18), want: &openConnectionRequest1{version: 6, length: 18}, whole: anyLength},
	} {
		t.Run(g.name, g.run)
	}
}

func TestOpenConnectionReply1(t *testing.T) {
	const head = "06" + magicHex + "000660c48509a6ae"
	key := strings.Repeat("a1", publicKeySize)
	for _, g := range []golden{
		{name: "stock", hex: "0600ffff00fefefefefdfdfdfd12345678000660c47c8fe2630005d4",
			want: &openConnectionReply1{guid: 0x660c47c8fe263, mtu: 1492}},
		{name: "cookie of go-raknet", hex: "0600ffff00fefefefefdfdfdfd123456785656a83100b856b001d6528aaa05d4",
			want: &openConnectionReply1{guid: 0x5656a83100b856b0, hasCookie: true, cookie: 0xd6528aaa, mtu: 1492}},
		// A prefix of this one is the form without a key, with the first bytes of the key as its MTU.
		{name: "cookie and key of stock", hex: head + "01888fcc21" + key + "05d4",
			want: &openConnectionReply1{guid: 0x660c48509a6ae, hasCookie: true, cookie: 0x888fcc21, encrypts: true,
				publicKey: [publicKeySize]byte(codectest.Unhex(t, key)), mtu: 1492},
			whole: func(n int) bool { return n >= 32 }},
	} {
		t.Run(g.name, g.run)
	}
}

func TestOpenConnectionRequest2(t *testing.T) {
	server4, server6 := written("127.0.0.1:42011", unknownFamily), written("[::1]:42117", 10)
	challenge := strings.Repeat("29", challengeSize)
	for _, g := range []golden{
		{name: "stock", hex: "07" + magicHex + "0480fffffea41b05d4000660c47c9a997b",
			want: request2{&openConnectionRequest2{server: server4, mtu: 1492, guid: 0x660c47c9a997b}, false}},
		{name: "stock over IPv6", hex: "07" + magicHex + "060a00a485" + loopback6Hex + "05d4000660c485c2a897",
			want: request2{&openConnectionRequest2{server: server6, mtu: 1492, guid: 0x660c485c2a897}, false}},
		{name: "stock with a cookie", hex: "07" + magicHex + "d6528aaa000480fffffea49505d4000660c486a67405",
			want: request2{&openConnectionRequest2{hasCookie: true, cookie: 0xd6528aaa,
				server: written("127.0.0.1:42133", unknownFamily), mtu: 1492, guid: 0x660c486a67405}, true}},
		{name: "stock with a challenge", hex: "07" + magicHex + "888fcc2101" + challenge +
			"0480fffffea41b05d4000660c485145892",
			want: request2{&openConnectionRequest2{hasCookie: true, cookie: 0x888fcc21, server: server4, mtu: 1492,
				guid: 0x660c485145892, challenged: true, challenge: [challengeSize]byte(codectest.Unhex(t, challenge))}, true}},
	} {
		t.Run(g.name, g.run)
	}
}

func TestOpenConnectionReply2(t *testing.T) {
	client := written("127.0.0.1:51255", unknownFamily)
	answer := strings.Repeat("5c", answerSize)
	for _, g := range []golden{
		{name: "stock", hex: "08" + magicHex + "000660c48509a6ae" + "0480fffffec83705d400",
			want: &openConnectionReply2{guid: 0x660c48509a6ae, client: client, mtu: 1492}},
		{name: "stock that encrypts", hex: "08" + magicHex + "000660c48509a6ae" + "0480fffffec83705d480" + answer,
			want: &openConnectionReply2{guid: 0x660c48509a6ae, client: client, mtu: 1492, encrypts: true,
				answer: [answerSize]byte(codectest.Unhex(t, answer))}},
	} {
		t.Run(g.name, g.run)
	}
}
