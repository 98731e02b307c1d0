package codectest

import (
	"bytes"
	"time"

	"tidegate/codec"
)

const greetInterval = 100 * time.Millisecond

// greets reports whether a payload is one of Config.Greeting. It may have changed on its way, except for its first
// byte.
func (c *Config) greets(payload []byte) bool {
	for _, greeting := range c.Greeting {
		if len(payload) > 0 && payload[0] == greeting[0] {
			return true
		}
	}
	return false
}

// greet makes a server send Config.Greeting until its client has received enough of it.
func (s *side) greet(now time.Time) {
	s.greetAt = time.Time{}
	if s.unheard == nil || !s.unheard() {
		return
	}
	for _, greeting := range s.c.Greeting {
		if err := s.conn.Send(now, codec.Message{Payload: greeting, Mode: s.c.modes[0]}); err != nil {
			s.r.Errorf("%s: Send of a greeting: %v", s.name, err)
		}
	}
	s.greetAt = now.Add(greetInterval)
}

// appendPayload appends the payload of a message of the direction.
func (l *ledger) appendPayload(b []byte, index uint32, size int, pad uint8) []byte {
	if l.fixed != nil {
		return append(b, l.fixed...)
	}
	return l.c.appendPayload(b, l.direction, index, size, pad)
}

// countFixed counts a fixed payload for the oldest message that has not arrived yet.
func (l *ledger) countFixed(m codec.Message) {
	if !bytes.Equal(m.Payload, l.fixed) {
		l.mismatch("%x received, want %x, the only possible payload", m.Payload, l.fixed)
		return
	}
	for i := range l.records {
		if l.records[i].arrivals == 0 {
			l.records[i].arrivals++
			return
		}
	}
}
