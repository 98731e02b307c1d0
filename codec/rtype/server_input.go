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
	isHello := !s.format.document && bytes.Equal(d, s.options.Hello)
	switch {
	case len(d) == 0:
		return errTorn
	case s.state == opening && isHello:
		s.heard = now
		return codec.ErrDuplicate
	case s.state != connected:
		return codec.ErrUnexpected
	case isHello:
		s.restore(now)
	case s.format.document:
		return s.receiveKeys(now, d)
	case bytes.Equal(d, pong):
		s.pulse.answered(now)
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
		s.take(d[i : i+1])
	}
	return nil
}

// receiveInput takes a datagram of the game's: a lone byte, or an update.
func (s *server) receiveInput(now time.Time, d []byte) error {
	var in instruction
	var lone byte
	var err error
	if len(d) == 1 {
		lone, err = inputOf(d[0], &s.format)
	} else if err = in.parseAlone(d, &s.format, s.sizes); err == nil && in.op != update {
		err = errOpcode
	}
	if err != nil {
		return err
	}
	if !s.rate.allow(now) {
		return errRate
	}
	s.hear(now)
	if len(d) == 1 {
		s.takeByte(lone)
	} else {
		s.takeInstruction(&in, d)
	}
	return nil
}

func (s *server) hear(now time.Time) {
	s.heard = now
	s.pulse.heard()
}
