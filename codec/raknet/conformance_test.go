package raknet

import (
	"encoding/binary"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestConformance(t *testing.T) {
	options := func(seed uint64) Options {
		o := Options{MaxMessage: 64 << 10, MaxQueued: 1 << 20}
		binary.BigEndian.PutUint64(o.Seed[:], seed)
		return o
	}
	sides := func(seed uint64) (server, client codec.Protocol) {
		return New(options(seed)), New(options(seed))
	}
	wrapped := func(seed uint64) (server, client codec.Protocol) {
		o := options(seed)
		return nearWrap{New(o)}, nearWrap{New(o)}
	}
	both := func(reason codec.Reason) codectest.GoodbyeCase {
		return codectest.GoodbyeCase{Sent: codec.Goodbye{Reason: reason}, Received: codec.Goodbye{Reason: reason}}
	}
	codectest.Run(t, codectest.Config{
		New:           sides,
		NearWrap:      wrapped,
		Prefix:        []byte{0x86},
		MinPayload:    1,
		MaxPayload:    func(codec.Mode) int { return 64 << 10 },
		Sizes:         []int{1431, 1432, 1433, 2863, 2864, 2865, 8191, 8192, 20_000},
		Pads:          []uint8{0, 1, 7},
		PadsLow:       true,
		Channels:      maxChannels,
		HelloData:     true,
		HelloIdentity: true,
		ClientIDs:     true,
		Refusals: []codectest.GoodbyeCase{
			both(codec.InvalidPassword), both(codec.ServerFull), both(codec.Banned), both(codec.AlreadyConnected),
			both(codec.TooSoon), both(codec.Incompatible), both(codec.Rejected),
		},
		Deferred: []codectest.GoodbyeCase{
			both(codec.ServerFull), both(codec.Banned), both(codec.AlreadyConnected), both(codec.TooSoon),
			both(codec.NoConnection), codectest.ReasonOnly(codec.Rejected, codec.NoConnection),
			{Sent: codec.Goodbye{Reason: codec.Incompatible, Version: 8}, Received: codec.Goodbye{Reason: codec.Incompatible}},
		},
		Kicks: []codectest.GoodbyeCase{
			{Sent: codec.Goodbye{Reason: codec.Kicked}, Received: codec.Goodbye{Reason: codec.Closed}},
		},
		// Whoever guesses a number near the newest can say anything in the name of the peer: RakNet without libcat
		// authenticates nothing. Whoever has seen a cookie can take the client's place.
		Forgeable: func(datagram []byte) bool {
			return len(datagram) > 0 && (datagram[0]&bitValid != 0 || datagram[0] == idOpenConnectionRequest2)
		},
		StatelessRefusal: codec.ServerFull,
		Timeout:          15 * time.Second,
	})
}
