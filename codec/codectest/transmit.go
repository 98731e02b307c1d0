package codectest

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// guard precedes the room that a codec appends to. It shows that the codec only appends.
var guard = []byte("\xc3before\xc3")

// transmitLast is transmit, up to and including the one round that follows Disconnected, as a proxy would run it.
func (s *side) transmitLast(now time.Time, b []byte) ([]byte, bool) {
	if s.silent || s.stopped {
		return b, false
	}
	b, ok := s.transmit(now, b)
	if !ok {
		s.silent = s.over
		s.maySave(now)
	}
	return b, ok
}

// transmit returns the next datagram appended to b.
func (s *side) transmit(now time.Time, b []byte) ([]byte, bool) {
	if s.buffer == nil {
		s.buffer = append(make([]byte, 0, len(guard)+codec.MaxDatagram), guard...)
	}
	out, ok := s.conn.Transmit(now, s.buffer)
	if !ok {
		s.checkMovedOn()
		s.checkGrowth()
		return b, false
	}
	if !s.appended(out) {
		s.r.Errorf("%s: Transmit did not append one datagram of 1 to %d bytes", s.name, codec.MaxDatagram)
		return b, false
	}
	return append(b, out[len(guard):]...), true
}

// appended reports whether out is the buffer given to Transmit, with its bytes unchanged and one datagram after them.
func (s *side) appended(out []byte) bool {
	return len(out) > len(guard) && len(out) <= len(guard)+codec.MaxDatagram && &out[0] == &s.buffer[0] &&
		bytes.HasPrefix(out, guard)
}

// checkMovedOn checks that the last Advance made progress: the timeout is later, once everything is sent.
func (s *side) checkMovedOn() {
	if next := s.conn.NextTimeout(); !s.advancedFrom.IsZero() && !next.IsZero() && !next.After(s.advancedFrom) {
		s.r.Errorf("%s: busy: NextTimeout makes no progress: Advance at %v leaves %v", s.name, s.advancedFrom, next)
		s.over = true
	}
	s.advancedFrom = time.Time{}
}
