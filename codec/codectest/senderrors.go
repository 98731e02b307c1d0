package codectest

import (
	"errors"

	"tidegate/codec"
)

func isMode(err error) bool   { return errors.Is(err, codec.ErrMode) }
func isClosed(err error) bool { return errors.Is(err, codec.ErrClosed) }

// checkSendErrors sends messages that Send must refuse, and checks that the session continues unchanged.
func checkSendErrors(t tb, c *Config) {
	simulate(t, "send errors", func(r *report) {
		p := connectedPair(r, c, 1)
		if p == nil {
			return
		}
		for _, s := range []*side{p.client, p.server} {
			p.checkRefused(s)
		}
		modes := c.modes
		p.client.plan, p.server.plan = p.compose(modes), p.compose(modes)
		p.runUntilSettled(true)
		p.closeAndCheck(p.client, c.Leaves[0].Sent)
		if err := p.server.conn.Send(p.net.Now(), codec.Message{Payload: p.payload(), Mode: modes[0]}); !isClosed(err) {
			r.Errorf("server: Send after Disconnected: %v, want ErrClosed", err)
		}
	})
}

// payload returns a payload that the protocol takes.
func (p *pair) payload() []byte {
	return p.c.appendPayload(nil, 0, 0, p.c.smallest(), 0)
}

// checkRefused sends in foreign modes and beyond the largest size, with receipts that must never be answered.
func (p *pair) checkRefused(s *side) {
	const receipt = 1 << 30
	own := p.node.protocol.Spec().Modes
	for m := codec.Unreliable; m <= codec.Notify+1; m++ {
		message := codec.Message{Payload: p.payload(), Mode: m, Receipt: receipt}
		if !own.Has(m) {
			if err := s.conn.Send(p.net.Now(), message); !isMode(err) {
				p.r.Errorf("%s: Send %v: %v, want ErrMode", s.name, m, err)
			}
			continue
		}
		if beyond := p.c.Channels; beyond > 1 && beyond < 256 && hasChannel(m) {
			message.Channel = uint8(beyond)
			if err := s.conn.Send(p.net.Now(), message); !isMode(err) {
				p.r.Errorf("%s: Send %v on channel %d of %d: %v, want ErrMode", s.name, m, beyond, beyond, err)
			}
			message.Channel = 0
		}
		if !p.c.boundsPayload || s.out.fixed != nil {
			continue
		}
		message.Payload = make([]byte, p.c.MaxPayload(m)+1)
		copy(message.Payload, p.c.Prefix)
		if p.c.IDs.Has(m) {
			message.HasID, message.ID = true, 1
		}
		if err := s.conn.Send(p.net.Now(), message); !errors.Is(err, codec.ErrTooLarge) {
			p.r.Errorf("%s: Send %v of %d bytes: %v, want ErrTooLarge", s.name, m, len(message.Payload), err)
		}
	}
}
