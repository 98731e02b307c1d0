package riptide

import (
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// Foul weather loses more notify messages than the library lets a connection live with.
func TestConformance(t *testing.T) {
	makes := func(o Options) func(uint64) (server, client codec.Protocol) {
		return func(uint64) (server, client codec.Protocol) { return New(o), New(o) }
	}
	codectest.Run(t, codectest.Config{
		New:        makes(Options{IgnoreQuality: true}),
		NearWrap:   makes(Options{first: 65520, IgnoreQuality: true}),
		MaxPayload: largestPayload,
		Pads:       []uint8{0, 4},
		IDs:        codec.ModesOf(codec.Unreliable, codec.Reliable),
		Repeats:    true,
		HelloData:  true,
		ClientIDs:  true,
		News:       true,
		Refusals: []codectest.Farewell{
			plain(codec.NoConnection, codec.NoConnection),
			plain(codec.AlreadyConnected, codec.AlreadyConnected),
			plain(codec.ServerFull, codec.ServerFull),
			plain(codec.Rejected, codec.Rejected),
			plain(codec.Banned, codec.Rejected),
			withData(codec.RejectedCustom, codec.RejectedCustom),
			withData(codec.Rejected, codec.RejectedCustom),
		},
		Kicks: []codectest.Farewell{
			plain(codec.Kicked, codec.Kicked),
			withData(codec.Kicked, codec.Kicked),
			plain(codec.ServerStopped, codec.ServerStopped),
			plain(codec.Closed, codec.Closed),
			plain(codec.PoorConnection, codec.PoorConnection),
			plain(codec.Overflow, codec.Kicked),
		},
		StatelessRefusal: codec.ServerFull,
		Forges:           forges,
		Ends:             func(d []byte) bool { return len(d) > 0 && v22.kindOf(d) == kindDisconnect },
	})
}

// largestPayload is the size of the largest payload with an ID of one byte. docs/protocols/riptide.md#sizes
func largestPayload(m codec.Mode) int {
	switch m {
	case codec.Reliable:
		return 1227
	case codec.Notify:
		return 1225
	}
	return 1229
}

func plain(said, heard codec.Reason) codectest.Farewell {
	return codectest.Farewell{Said: codec.Goodbye{Reason: said}, Heard: codec.Goodbye{Reason: heard}}
}

func withData(said, heard codec.Reason) codectest.Farewell {
	data, pad := []byte{1, 2, 3, 0x0f}, uint8(4)
	return codectest.Farewell{
		Said:  codec.Goodbye{Reason: said, Data: data, Pad: pad},
		Heard: codec.Goodbye{Reason: heard, Data: data, Pad: pad},
	}
}

// forges says which types of message end a session, bring another message in a genuine one's place, or claim that a
// message has arrived, whoever sends them.
func forges(d []byte) bool {
	if len(d) == 0 {
		return false
	}
	k := v22.kindOf(d)
	return k == kindAck || k == kindDisconnect || k == kindNotify || k >= kindReliable
}
