package codectest

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// checkFewChannels sends on all channels of a connection whose server has granted fewer. No message may be lost: it
// may come on another channel.
func checkFewChannels(t tb, c *Config) {
	if c.FewChannels == nil {
		return
	}
	simulate(t, "few channels", func(r *report) {
		p := newPair(r, c, 1, clear20)
		p.dial(c.FewChannels, 1)
		if !p.mustConnect() {
			return
		}
		p.onAllChannels(p.client, p.server)
		p.onAllChannels(p.server, p.client)
		p.up.lenient, p.down.lenient = true, true // these messages are not in the ledgers
		p.closeAndCheck(p.client, c.Leaves[0].Sent)
	})
}

// onAllChannels sends one message of each mode on each channel, and checks that each arrives once.
func (p *pair) onAllChannels(from, to *side) {
	arrived := make(map[string]int)
	to.onReceived = func(m codec.Message) { arrived[string(m.Payload)]++ }
	var sent []string
	for channel := range p.c.Channels {
		for _, mode := range p.c.modes {
			if !hasChannel(mode) {
				continue
			}
			m := codec.Message{Mode: mode, Channel: uint8(channel)}
			m.Payload = append(bytes.Clone(p.c.Prefix), byte(channel), byte(mode), 'x')
			if p.c.IDs.Has(mode) {
				m.HasID, m.ID = true, 1
			}
			if err := from.conn.Send(p.net.Now(), m); err != nil {
				p.r.Errorf("%s: Send on channel %d, beyond those granted: %v", from.name, channel, err)
			}
			sent = append(sent, string(m.Payload))
		}
		p.net.Run(5 * time.Millisecond)
	}
	p.net.Run(quiet)
	for _, payload := range sent {
		if n := arrived[payload]; n != 1 {
			m := []byte(payload[len(p.c.Prefix):])
			p.r.Errorf("%s: a %v message on channel %d, perhaps beyond those granted, arrived %d times", from.name,
				codec.Mode(m[1]), m[0], n)
			return
		}
	}
	to.onReceived = nil
}
