package bridge

import (
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// named returns the protocol with a name, with its default options.
func named(name string) codec.Protocol {
	d := protocols.Find(name)
	return d.New(d.Options(), registry.Use{})
}

func TestFraming(t *testing.T) {
	raknet, riptide, rudp, rtype := named("raknet"), named("riptide-2.2"), named("rudp"), named("rtype-32")
	for _, c := range []struct {
		near, far codec.Protocol
		envelope  policy.Envelope
		want      string
	}{
		{riptide, riptide, policy.EnvelopeID, "passed as they are"},
		{riptide, raknet, policy.EnvelopeID, "put into envelope id with packet byte 0x86"},
		{raknet, riptide, policy.EnvelopeID, "taken out of envelope id with packet byte 0x86"},
		{raknet, rudp, policy.EnvelopeFramed,
			"taken out of envelope framed with packet byte 0x86 and put into envelope framed"},
		{riptide, raknet, policy.EnvelopeRaw, "passed without their message IDs"},
		{raknet, riptide, policy.EnvelopeRaw, "passed as they are, with message ID 7"},
		{rtype, riptide, policy.EnvelopeRaw, "passed as they are, with message ID 7"},
		{rudp, raknet, policy.EnvelopeRaw, "passed as they are"},
	} {
		o := &Options{Ordered: policy.OrderedFast, Envelope: c.envelope, PacketID: 0x86, RawMessageID: 7}
		if got := Framing(c.near, c.far, o); got != c.want {
			t.Errorf("%s to %s: %q, want %q", c.near.Spec().Name, c.far.Spec().Name, got, c.want)
		}
	}
}

// TestCrossingsOfWhatMayBeLost asserts that crossings of lossy modes have a remark only where the far wire is worse
// than a loss.
func TestCrossingsOfWhatMayBeLost(t *testing.T) {
	for _, far := range []codec.Protocol{named("riptide-2.0"), named("rtype-32")} { // neither drops stale messages
		for _, c := range Crossings(named("riptide-2.2"), far, &Options{Ordered: policy.OrderedFast}) {
			if c.From == codec.Notify && c.String() != "unreliable: a stale one may arrive late" {
				t.Errorf("to %s: notify as %s", far.Spec().Name, c)
			}
			if c.From == codec.Unreliable && strings.Contains(c.String(), ":") {
				t.Errorf("to %s: unreliable as %s", far.Spec().Name, c)
			}
		}
	}
}
