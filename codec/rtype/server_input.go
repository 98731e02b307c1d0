package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// Receive takes one datagram of the client's.
func (s *server) Receive(now time.Time, datagram []byte) error {
	s.scratch = s.scratch[:0]
	return s.stats.Count(s.receive(now, datagram))
}

func (s *server) receive(now time.Time, d []byte) error {
	isHello := !s.format.document && !s.format.isFinal() && bytes.Equal(d, s.options.Hello)
	switch {
	case len(d) == 0:
		return errTorn
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
		s.pulse.answered(now)
	case s.format.isFinal() && opcode(d[0]) != update:
		return s.receiveLobby(now, d)
	default:
		return s.receiveInput(now, d)
	}
	s.hear(now)
	return nil
}

// receiveKeys takes a datagram of the document's, whose instructions are a byte each.
func (s *server) receiveKeys(now time.Time, d []byte) error {
	for i, key := range d {
		switch {
		case key > maxKey:
			return errOpcode
		case !s.rate.allow(now):
			return errRate
		}
		s.hear(now)
		s.takeOpener()
		s.take(d[i : i+1])
	}
	return nil
}

// receiveInput takes a datagram of the game's: a key, or an update.
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
	case s.format.isFinal() && !s.lobby.started:
		return codec.ErrUnexpected
	}
	if !s.rate.allow(now) {
		return errRate
	}
	in.entity = s.masked(in.entity)
	known := s.mirror.yield(&in)
	switch {
	case s.mask == 0 || s.format.entityWidth() == 2:
	case known:
		s.secret.prove(now)
	case !s.mirror.overflowed:
		return errEntity
	}
	s.hear(now)
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
	s.hear(now)
	s.take(d)
	return nil
}

func (s *server) hear(now time.Time) {
	s.heard = now
	s.pulse.heard()
}
