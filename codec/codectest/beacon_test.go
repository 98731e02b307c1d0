package codectest_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/codectest/simnet"
)

// TestOwnCodec runs the conformance suite on the example of a codec of one's own.
func TestOwnCodec(t *testing.T) {
	refusal := codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("not today")}
	codectest.Run(t, codectest.Config{
		New: func(seed uint64) (server, client codec.Protocol) {
			p := new(beacon)
			binary.BigEndian.PutUint64(p.Seed[:], seed)
			return p, p
		},
		MaxPayload:       func(codec.Mode) int { return maxPayload },
		Repeats:          true,
		HelloData:        true,
		ClientIDs:        true,
		Refusals:         []codectest.GoodbyeCase{{Sent: refusal, Received: refusal}},
		StatelessRefusal: codec.ServerFull,
		Timeout:          patience + time.Second,
		DialTimeout:      patience + time.Second,
		Derived:          []string{"polled", "spare"},
		// Who sees a datagram knows the token. A checksum with a key would end that.
		Forgeable:     func(b []byte) bool { return len(b) >= headerLen },
		FatalIfForged: func(b []byte) bool { return len(b) > headerLen && b[0] == goodbye },
	})
}

// TestLossyNetwork plays the example on a network that loses each fifth datagram. A failure prints its seed, which
// repeats it.
func TestLossyNetwork(t *testing.T) {
	for _, seed := range simnet.Seeds(20) {
		net := simnet.New(t, seed, simnet.Weather{Loss: 0.2, Latency: 40 * time.Millisecond, Jitter: 20 * time.Millisecond})
		arrived, at, home := 0, netip.MustParseAddrPort("10.0.0.1:7777"), netip.MustParseAddrPort("10.0.0.2:50000")
		server := &codectest.Node{Protocol: new(beacon), Self: at}
		client := &codectest.Node{Protocol: new(beacon), Self: home}
		server.Event = func(now time.Time, c codec.Conn, e codec.Event) {
			switch e.Kind {
			case codec.Asked:
				c.Admit(now, 1)
			case codec.Received:
				arrived++
			}
		}
		client.Event = func(now time.Time, c codec.Conn, e codec.Event) {
			for e.Kind == codec.Connected && c.Send(now, codec.Message{Payload: []byte("x=1 y=2")}) == nil { // until ErrFull
			}
		}
		net.Add(server, at)
		net.Add(client, home)
		client.Dial(net.Now(), at, codec.Hello{})
		if !net.RunUntil(time.Minute, func() bool { return arrived > maxWaiting/2 }) || arrived > maxWaiting {
			t.Errorf("seed %d: %d of %d messages arrived", seed, arrived, maxWaiting)
		}
	}
}
