package raknet

import "time"

// A literal peer waits for each datagram number. It takes 255 datagrams behind a missing one, and 255 messages behind
// a missing reliable message. It acknowledges and drops everything beyond. To such a peer we send again under the lost
// number, and stay within that room (docs/protocols/raknet/recovery.md#peers-without-timers).
const literalRoom = 255

// mostUnnoticed bounds the datagrams that may have been sent to a peer before it is recognized as literal.
const mostUnnoticed = 16

// becomeLiteral is called when the peer is recognized as literal, early in the connection. Forgotten numbers are sent
// again, empty, because their fate is unknown.
func (f *flight) becomeLiteral() {
	f.Literal = true
	for n := f.Base; n != f.next; n = n.Add(1) {
		if s := f.at(n).state; s == lost || s == expired {
			f.queueRepeat(n)
		}
	}
	for f.Base != 0 && f.next.Sub(f.Base) < mostUnnoticed {
		if f.next.Sub(f.Base) == len(f.ring) {
			f.grow()
		}
		f.Base = f.Base.Add(-1)
		*f.at(f.Base) = sentDatagram{state: lost}
		f.queueRepeat(f.Base)
	}
	f.Due = f.Base
}

func (f *flight) queueRepeat(n Seq24) { f.repeats = append(f.repeats, n) }

func (f *flight) dropRepeat() { f.repeats = append(f.repeats[:0], f.repeats[1:]...) }

// nextRepeat returns the first datagram to be sent again under its number.
func (f *flight) nextRepeat() (n Seq24, ok bool) {
	for len(f.repeats) > 0 {
		if n = f.repeats[0]; !n.Before(f.Base) && f.at(n).state != settled {
			return n, true
		}
		f.dropRepeat()
	}
	return 0, false
}

// repeated records that the datagram of nextRepeat was sent again.
func (f *flight) repeated(n Seq24, now time.Duration, size int) {
	d := f.at(n)
	d.at, d.size, d.state, d.again = now, int32(size), inFlight, true
	f.dropRepeat()
	if n.Before(f.Due) {
		f.Due = n
	}
}

// repeat appends a datagram again with the parts that are still needed.
func (s *sender) repeat(now time.Duration, b []byte, n Seq24) []byte {
	p := packer{s: s, now: now, start: len(b), datagram: s.flight.at(n)}
	p.b = appendDataHeader(b, n, false, s.Congestion.inSlowStart())
	for _, ref := range p.datagram.parts {
		again := s.flight.get(ref)
		if again == nil || !p.pack(again.message, again.index, again.reliable) {
			continue
		}
		again.resent = true
		s.Resent++
		s.ReliableAt = now
	}
	s.flight.repeated(n, now, len(p.b)-p.start)
	s.Congestion.repeats(n)
	return p.b
}
