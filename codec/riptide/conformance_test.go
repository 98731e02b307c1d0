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

// TestRecords restores sessions as earlier releases have saved them.
func TestRecords(t *testing.T) {
	for _, v := range []Version{V22, V20} {
		codectest.TestRecords(t, names[v], conformance(v))
	}
}

// FuzzRestore restores records of connections, damaged in all ways.
func FuzzRestore(f *testing.F) { codectest.FuzzRestore(f, conformance(V22)) }

// conformance describes the abilities of dialect v. Bad network conditions lose more notify messages than the library
// accepts.
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
		New:          makes(Options{}),
		ShortProof:   "a client ID of 16 bits",
		ForgedAnswer: "a Welcome holds nothing of the client's attempt",
		NearWrap:     makes(Options{first: 65520}),
		MaxPayload:   func(m codec.Mode) int { return largestPayloads[v][m] },
		Pads:         pads,
		IDs:          codec.ModesOf(codec.Unreliable, codec.Reliable),
		Repeats:      true,
		HelloData:    true,
		ClientIDs:    true,
		Announces:    true,
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
		Forge:            forge(v),
		ForgeNear:        forgeNear(v),
		ForgedLoss:       mostForgedLoss,
		Forgeable:        func(d []byte) bool { return forgeable(&dialects[v], d) },
		FatalIfForged:    func(d []byte) bool { return fatalIfForged(&dialects[v], d) },
		Derived: []string{
			"events", "stats.RTT", "stats.Queued", "stats.Held", "stats.Kept", "stats.MTU", "control",
			"doubt.goodbye", "notifier.answered",
			"flight.bytes", "flight.first", "flight.last", "flight.spare", "sends", "window.prints",
		},
	}
}

// largestPayloads are the sizes of the largest payloads, in 2.1+ with an ID of one byte.
// docs/protocols/riptide.md#sizes
var largestPayloads = [...]map[codec.Mode]int{
	V22: {codec.Unreliable: 1229, codec.Reliable: 1227, codec.Notify: 1225},
	V20: {codec.Unreliable: 1227, codec.Reliable: 1225},
}

// withData makes goodbyes with data that has the last of the given pads.
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

// forgeable reports whether a forged message of this type can change a session. It may end the session, replace a
// genuine message, or claim that a message has arrived.
func forgeable(w *dialect, d []byte) bool {
	if len(d) == 0 {
		return false
	}
	k := w.kindOf(d)
	return k == kindAck || k == kindDisconnect || k == kindNotify || k >= kindReliable
}

// fatalIfForged reports whether a forged message of this type ends a session.
func fatalIfForged(w *dialect, d []byte) bool {
	return len(d) > 0 && (w.kindOf(d) == kindDisconnect || w.kindOf(d) == kindReject)
}

// TestCapturesAreWellFormed: our sides take no datagram of a real peer for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range loadCaptures(t) {
		codectest.Replay(t, c.Capture, New(Options{Version: c.dialect(), Stream: c.Stream}))
	}
}

// TestFirstBytes checks which bytes begin no datagram of a client, and that Connects open a session.
func TestFirstBytes(t *testing.T) {
	for v := range dialects {
		p := New(Options{Version: Version(v)})
		for b := range 256 {
			if isConnect := p.dialect.kindOf([]byte{byte(b)}) == kindConnect; p.spec.Openings.Has(byte(b)) != isConnect {
				t.Errorf("%s: Openings.Has(%#x) is not %t", p.spec.Name, b, isConnect)
			}
		}
	}
	for _, test := range []struct {
		version Version
		first   byte
	}{{V22, 0x03}, {V22, 0xf3}, {V22, 0x0f}, {V22, 0x49}, {V20, 0x04}, {V20, 0x0b}, {V20, 0xff}} {
		if New(Options{Version: test.version}).spec.FirstBytes.Has(test.first) {
			t.Errorf("version %v: FirstBytes.Has(%#x) is true", test.version, test.first)
		}
	}
}

// BenchmarkSave measures saved connections.
func BenchmarkSave(b *testing.B) { codectest.BenchmarkSave(b, conformance(V22)) }
