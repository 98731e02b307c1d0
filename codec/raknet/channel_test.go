package raknet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tidegate/codec"
)

// channelScript plays arrivals on channel 3 and returns the delivered messages in order.
func channelScript(c *channels, arrivals []inbound) (passed []string) {
	name := func(m *inbound) string {
		if isSequenced(m.Mode) {
			return fmt.Sprintf("s%d.%d", m.Order, m.Sequence)
		}
		return fmt.Sprintf("o%d", m.Order)
	}
	pass := func(m *inbound) {
		passed = append(passed, name(m))
		c.pass(m)
	}
	for i := range arrivals {
		m := arrivals[i]
		m.Channel = 3
		switch c.judge(&m) {
		case early:
			c.hold(0, m)
		case fresh:
			pass(&m)
			for m, v, ok := c.release(3); ok; m, v, ok = c.release(3) {
				if v == fresh {
					pass(&m)
				}
			}
		}
	}
	return passed
}

func ordered(n Seq24) inbound { return inbound{Mode: codec.ReliableOrdered, Order: n} }

func sequenced(order, sequence Seq24) inbound {
	return inbound{Mode: codec.ReliableSequenced, Order: order, Sequence: sequence}
}

func TestChannelOrder(t *testing.T) {
	const top = seq24Mask
	for _, test := range []struct {
		what     string
		start    Seq24
		arrivals []inbound
		want     []string
	}{
		{"ordered over the wrap-around", top, []inbound{ordered(1), ordered(top), ordered(0)},
			[]string{"o16777215", "o0", "o1"}},
		{"ordered repeated", 0, []inbound{ordered(0), ordered(0), ordered(2), ordered(2), ordered(1)},
			[]string{"o0", "o1", "o2"}},
		{"sequenced, an older one late", 0, []inbound{sequenced(0, 0), sequenced(0, 2), sequenced(0, 1), sequenced(0, 2)},
			[]string{"s0.0", "s0.2"}},
		{"an ordered message starts sequencing anew", 0, []inbound{sequenced(0, 5), ordered(0), sequenced(1, 0)},
			[]string{"s0.5", "o0", "s1.0"}},
		{"sequenced ones wait for the ordered one before them", 0,
			[]inbound{sequenced(1, 1), ordered(1), sequenced(1, 0), ordered(0)},
			[]string{"o0", "s1.0", "s1.1", "o1"}},
		{"sequenced after its successor in order", 0, []inbound{ordered(0), sequenced(0, 1)}, []string{"o0"}},
		{
			"sequencing numbers wrap around", 0,
			[]inbound{sequenced(0, top-1), sequenced(0, top), sequenced(0, 0), sequenced(0, top)},
			[]string{"s0.16777214", "s0.16777215", "s0.0"},
		},
	} {
		var c channels
		c.at(3).Order = test.start
		c.at(3).Sequence = test.arrivals[0].Sequence
		if got := channelScript(&c, test.arrivals); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.what, got, test.want)
		}
	}
}

func TestChannelsCountWhatWaits(t *testing.T) {
	var c channels
	rng := rand.New(rand.NewPCG(1, 2))
	arrivals := make([]inbound, 500)
	for i, n := range rng.Perm(len(arrivals)) {
		arrivals[i] = ordered(Seq24(seq24Mask - 100).Add(n))
		arrivals[i].Payload = make([]byte, 7)
	}
	c.at(3).Order = Seq24(seq24Mask - 100)
	last := slices.IndexFunc(arrivals, func(m inbound) bool { return m.Order == seq24Mask-100 })
	arrivals[last], arrivals[499] = arrivals[499], arrivals[last]

	channelScript(&c, arrivals[:499])
	if c.messages != 499 || c.bytes != 499*7 {
		t.Errorf("%d messages of %d bytes wait, want 499 of %d", c.messages, c.bytes, 499*7)
	}
	if got := channelScript(&c, arrivals[499:]); len(got) != 500 {
		t.Errorf("%d messages set free, want 500", len(got))
	}
	if c.messages != 0 || c.bytes != 0 {
		t.Errorf("%d messages of %d bytes wait, want none", c.messages, c.bytes)
	}
}
