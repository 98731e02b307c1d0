package codectest

import (
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
)

// checkSizes sends payloads of every interesting size and pad, one at a time in good network conditions. It can
// therefore compare even payloads that are too short to be recognized.
func checkSizes(t tb, c *Config) {
	for _, m := range c.modes {
		simulate(t, m.String(), func(r *report) {
			p := connectedPair(r, c, 1)
			if p == nil {
				return
			}
			for _, size := range c.interestingSizes(m) {
				for _, pad := range c.Pads {
					p.sendAlone(m, size, pad)
				}
			}
		})
	}
}

// interestingSizes returns the bounds, the configured sizes within them, and a few sizes between.
func (c *Config) interestingSizes(m codec.Mode) []int {
	smallest, largest := max(c.MinPayload, len(c.Prefix)), c.MaxPayload(m)
	sizes := []int{smallest, smallest + 1, smallest + 2, 63, 64, 127, 128, 255, 256, 257, largest - 1, largest}
	sizes = append(sizes, c.Sizes...)
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n < smallest || n > largest })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// sendAlone sends one message each way and waits until it arrives unchanged.
func (p *pair) sendAlone(m codec.Mode, size int, pad uint8) {
	if size == len(p.c.Prefix) && pad > 0 {
		return
	}
	payload := p.c.appendFiller(append([]byte(nil), p.c.Prefix...), uint32(size), size-len(p.c.Prefix), pad)
	message := codec.Message{Payload: payload, Pad: pad, Mode: m}
	if p.c.IDs.Has(m) {
		message.HasID, message.ID = true, 1
	}
	for _, way := range []struct{ from, to *side }{{p.client, p.server}, {p.server, p.client}} {
		if way.from.out.fixed != nil {
			continue
		}
		what := fmt.Sprintf("%d bytes pad %d from the %s", size, pad, way.from.name)
		var arrived []codec.Message
		way.to.onReceived = func(got codec.Message) {
			if p.c.greets(got.Payload) {
				return
			}
			got.Payload = slices.Clone(got.Payload)
			arrived = append(arrived, got)
		}
		if err := way.from.conn.Send(p.net.Now(), message); err != nil {
			p.r.Errorf("Send of %s: %v", what, err)
			continue
		}
		p.net.RunUntil(time.Minute, func() bool { return len(arrived) > 0 })
		if len(arrived) != 1 || string(arrived[0].Payload) != string(payload) || arrived[0].Pad != pad {
			p.r.Errorf("%s arrived as %d messages, or as others", what, len(arrived))
		}
	}
}
