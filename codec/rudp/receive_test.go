package rudp

import (
	"errors"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestForged: packets that the peer cannot have sent change nothing, and do not end the session.
func TestForged(t *testing.T) {
	p := newPair(t, Options{base: 65535})
	for _, c := range []*Conn{p.client, p.server} {
		last, acked, next := c.received.last, c.flight.acked, c.flight.next
		for what, bad := range map[string]struct {
			packet
			err error
		}{
			"the newest again":        {packet{seq: last, acks: acks{last: acked}, kind: kindNotify}, codec.ErrDuplicate},
			"late":                    {packet{seq: last - 1, acks: acks{last: acked}, kind: kindData}, codec.ErrDuplicate},
			"half the circle away":    {packet{seq: last + 32768, acks: acks{last: acked}, kind: kindData}, codec.ErrDuplicate},
			"too far ahead":           {packet{seq: last + 35, acks: acks{last: acked}, kind: kindData}, codec.ErrWindow},
			"acknowledges the future": {packet{seq: last + 1, acks: acks{last: next}, kind: kindData}, codec.ErrWindow},
			"acknowledges the past":   {packet{seq: last + 1, acks: acks{last: acked - 1}, kind: kindData}, codec.ErrWindow},
			"acknowledges far away":   {packet{seq: last + 1, acks: acks{last: next + 32767}, kind: kindData}, codec.ErrWindow},
			"another application": {
				packet{app: 1, seq: last + 1, acks: acks{last: acked}, kind: kindData}, codec.ErrUnexpected,
			},
			"request within a session": {packet{seq: last + 1, acks: acks{last: acked}, kind: kindRequest}, codec.ErrUnexpected},
			"refusal within a session": {packet{seq: last + 1, acks: acks{last: acked}, kind: kindRefuse}, codec.ErrUnexpected},
		} {
			bad.data = []byte{1, 2}
			before := c.received
			if err := c.Receive(p.now, bad.append(nil)); !errors.Is(err, bad.err) {
				t.Errorf("%s: %v, want %v", what, err, bad.err)
			}
			if got := codectest.Drain(c); len(got) > 0 || c.received != before || c.flight.acked != acked {
				t.Errorf("%s: changes the session: %v", what, got)
			}
		}
		for i, want := range []error{codec.ErrWindow, nil} { // the second confirms the first
			farthest := packet{seq: last + 33 + seq(i), acks: acks{last: acked}, kind: kindKeepAlive}
			if err := c.Receive(p.now, farthest.append(nil)); !errors.Is(err, want) {
				t.Errorf("%d ahead: %v, want %v", 33+i, err, want)
			}
		}
	}
	accept := packet{seq: p.server.received.last + 1, acks: acks{last: p.server.flight.acked}, kind: kindAccept}
	if err := p.server.Receive(p.now, accept.append(nil)); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("Accept for a server: %v", err)
	}
}
