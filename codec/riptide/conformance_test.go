package riptide

import (
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestConformance(t *testing.T) {
	for _, v := range []Version{V22, V20} {
		t.Run(names[v], func(t *testing.T) { codectest.Run(t, conformance(v)) })
	}
}

// conformance is what dialect v can do. Foul weather loses more notify messages than the library lets a connection
// live with.
func conformance(v Version) codectest.Config {
	makes := func(o Options) func(uint64) (server, client codec.Protocol) {
		o.Version, o.IgnoreQuality = v, true
		return func(uint64) (server, client codec.Protocol) { return New(o), New(o) }
	}
	pads, poor := []uint8{0, 4}, codec.PoorConnection
	if v == V20 {
		pads, poor = nil, codec.TransportError
	}
	custom := withData(pads)
	return codectest.Config{
		New:        makes(Options{}),
		NearWrap:   makes(Options{first: 65520}),
		MaxPayload: func(m codec.Mode) int { return largestPayloads[v][m] },
		Pads:       pads,
		IDs:        codec.ModesOf(codec.Unreliable, codec.Reliable),
		Repeats:    true,
		HelloData:  true,
		ClientIDs:  true,
		News:       true,
		Refusals: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.NoConnection, codec.NoConnection),
			codectest.ReasonOnly(codec.AlreadyConnected, codec.AlreadyConnected),
			codectest.ReasonOnly(codec.ServerFull, codec.ServerFull),
			codectest.ReasonOnly(codec.Rejected, codec.Rejected),
			codectest.ReasonOnly(codec.Banned, codec.Rejected),
			custom(codec.RejectedCustom, codec.RejectedCustom),
			custom(codec.Rejected, codec.RejectedCustom),
		},
		Kicks: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.Kicked, codec.Kicked),
			custom(codec.Kicked, codec.Kicked),
			codectest.ReasonOnly(codec.ServerStopped, codec.ServerStopped),
			codectest.ReasonOnly(codec.Closed, codec.Closed),
			codectest.ReasonOnly(codec.PoorConnection, poor),
			codectest.ReasonOnly(codec.Overflow, codec.Kicked),
		},
		StatelessRefusal: codec.ServerFull,
		Forgeable:        func(d []byte) bool { return forges(&dialects[v], d) },
		FatalIfForged:    func(d []byte) bool { return ends(&dialects[v], d) },
	}
}

// largestPayloads are the sizes of the largest payloads, in 2.1+ with an ID of one byte.
// docs/protocols/riptide.md#sizes
var largestPayloads = [...]map[codec.Mode]int{
	V22: {codec.Unreliable: 1229, codec.Reliable: 1227, codec.Notify: 1225},
	V20: {codec.Unreliable: 1227, codec.Reliable: 1225},
}

// withData makes farewells with data that has the last of the given pads.
func withData(pads []uint8) func(said, heard codec.Reason) codectest.GoodbyeCase {
	data, pad := []byte{1, 2, 3, 0x0f}, uint8(0)
	if pads != nil {
		pad = pads[len(pads)-1]
	}
	return func(said, heard codec.Reason) codectest.GoodbyeCase {
		return codectest.GoodbyeCase{
			Sent:     codec.Goodbye{Reason: said, Data: data, Pad: pad},
			Received: codec.Goodbye{Reason: heard, Data: data, Pad: pad},
		}
	}
}

// forges says which types of message end a session, bring another message in a genuine one's place, or claim that a
// message has arrived, whoever sends them.
func forges(w *dialect, d []byte) bool {
	if len(d) == 0 {
		return false
	}
	k := w.kindOf(d)
	return k == kindAck || k == kindDisconnect || k == kindNotify || k >= kindReliable
}

// ends says which types of message end a session, whoever sends them.
func ends(w *dialect, d []byte) bool {
	return len(d) > 0 && (w.kindOf(d) == kindDisconnect || w.kindOf(d) == kindReject)
}
