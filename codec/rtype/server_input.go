package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// Receive takes one datagram of the client.
func (s *server) Receive(now time.Time, datagram []byte) error {
	s.scratch = s.scratch[:0]
	return s.stats.Count(s.receive(now, datagram))
}

func (s *server) receive(now time.Time, d []byte) error {
	isHello := !s.format.document && !s.format.isFinal() && bytes.Equal(d, s.options.Hello)
	switch {
	case len(d) == 0:
		return errLength
	case s.state == opening && (isHello || s.format.isFinal() && bytes.Equal(d, lastHello)):
		s.heard = now
		return codec.ErrDuplicate
	case s.state != connected:
		return codec.ErrUnexpected
	case isHello && s.secret.isFresh(now):
		return codec.ErrDuplicate
	case isHello:
		s.again(now)
	case s.format.document:
		return s.receiveKeys(now, d)
	case bytes.Equal(d, pong):
		s.pinger.answered(now)
	case s.format.isFinal() && opcode(d[0]) != update:
		return s.receiveLobby(now, d)
	default:
		return s.receiveInput(now, d)
	}
	s.markHeard(now)
	return nil
}

// receiveKeys handles a datagram of the document. Each of its instructions is one byte.
func (s *server) receiveKeys(now time.Time, d []byte) error {
	for i, key := range d {
		switch {
		case key > maxKey:
			return errOpcode
		case !s.rate.allow(now):
			return errRate
		}
		s.markHeard(now)
		s.takeOpener()
		s.take(d[i : i+1])
	}
	return nil
}

// receiveInput handles a datagram of the game: a key or an update.
func (s *server) receiveInput(now time.Time, d []byte) error {
	if len(d) == 1 {
		return s.receiveKey(now, d)
	}
	var in instruction
	if err := in.parseAlone(d, &s.format, s.sizes); err != nil {
		return err
	}
	switch {
	case in.op != update:
		return errOpcode
	case s.format.isFinal() && !s.lobby.started, s.sizes == nil && len(s.options.Components) > 0:
		return codec.ErrUnexpected
	}
	if !s.rate.allow(now) {
		return errRate
	}
	in.entity = s.masked(in.entity)
	known := s.mirror.markOwn(&in)
	switch {
	case s.mask == 0 || s.format.width != 4: // what it was sent is not known to have such numbers
	case known:
		s.secret.prove(now)
	case !s.mirror.overflowed:
		return errEntity
	}
	s.markHeard(now)
	s.takeInstruction(&in, d)
	return nil
}

func (s *server) receiveKey(now time.Time, d []byte) error {
	switch {
	case !s.format.hasKeys() || d[0] > maxKey:
		return errOpcode
	case !s.rate.allow(now):
		return errRate
	}
	s.markHeard(now)
	s.take(d)
	return nil
}

func (s *server) markHeard(now time.Time) {
	s.heard = now
	s.pinger.heard()
}

// rate lets perSecond messages pass per second, or at once after a second of silence.
type rate struct {
	perSecond int
	next      time.Time // when the messages so far would have been due at an even rate
}

// allow reports whether one more message may pass now.
func (r *rate) allow(now time.Time) bool {
	if r.next.Before(now) {
		r.next = now
	}
	every := time.Second / time.Duration(r.perSecond)
	if r.next.Sub(now) > time.Second-every {
		return false
	}
	r.next = r.next.Add(every)
	return true
}
