package raknet

import "time"

// How the sender learns what arrived: acknowledgements, requests to send again, and silence
// (docs/protocols/raknet.md#recovery-and-congestion).

// acknowledge takes the body of an ACK. Numbers that are not in flight are ignored.
func (s *sender) acknowledge(now time.Duration, body []byte) error {
	oldest, newest := time.Duration(-1), s.flight.base
	err := s.eachNamed(body, func(n Seq24) {
		d := s.flight.at(n)
		was := s.flight.acknowledge(n)
		if was == settled {
			return
		}
		if was == inFlight {
			s.congestion.acknowledged(n, int(d.size))
		}
		s.ackedAt = now
		if d.again {
			return // of which transmission, nobody knows
		}
		// The oldest of a batch waited longest for it, and the timeout must allow for that.
		if oldest < 0 || d.at < oldest {
			oldest = d.at
		}
		if newest.Before(n) {
			newest = n
		}
	})
	if oldest >= 0 {
		s.rtt.sample(now - oldest)
		s.congestion.queue.sample(now, now-s.flight.at(newest).at, newest, s.flight.next, s.congestion.limiting)
	}
	return err
}

// reject takes the body of a NACK: what it names in flight is sent again at once, but what was sent again already only
// after a round trip more, lest a peer multiply our traffic.
func (s *sender) reject(now time.Duration, body []byte) error {
	patience := s.rtt.smoothed
	if patience == 0 {
		patience = s.rtt.timeout()
	}
	return s.eachNamed(body, func(n Seq24) {
		d := s.flight.at(n)
		if d.state != inFlight || s.flight.resentLately(n) && now-d.at < patience {
			return
		}
		s.flight.lose(n)
		s.congestion.lost(n, s.flight.next, int(d.size), false)
		s.lost++
	})
}

// advance takes the datagrams for lost whose acknowledgement is overdue.
func (s *sender) advance(now time.Duration) {
	if now >= s.pacer.wakeAt {
		s.pacer.wakeAt = 0
	}
	timeout := s.rtt.timeout()
	silent, expired := now-s.ackedAt >= timeout, false
	for n, ok := s.flight.oldestDue(); ok; n, ok = s.flight.oldestDue() {
		d := s.flight.at(n)
		if now-d.at < timeout {
			break
		}
		if d.state == inFlight {
			s.congestion.lost(n, s.flight.next, int(d.size), silent)
			s.lost++
			expired = true
		}
		s.flight.expire(n)
	}
	if expired && silent {
		s.rtt.expire()
	}
}

// nextTimeout is when advance has something to do, or something held back may go.
func (s *sender) nextTimeout() (at time.Duration, ok bool) {
	at, ok = s.pacer.wakeAt, s.pacer.wakeAt != 0
	n, due := s.flight.oldestDue()
	if !due {
		return at, ok
	}
	expiry := s.flight.at(n).at + s.rtt.timeout()
	if ok {
		return min(at, expiry), true
	}
	return expiry, true
}

// eachNamed visits the remembered datagrams that an ACK or NACK names. However wide its ranges are, and however often
// they overlap, it visits no more than there can be.
func (s *sender) eachNamed(body []byte, visit func(Seq24)) error {
	var r ackReader
	if err := r.parse(body); err != nil {
		return err
	}
	left := maxFlight
	for named, ok := r.next(); ok; named, ok = r.next() {
		for _, span := range s.flight.overlap(named) {
			for n := span.first; !span.last.Before(n); n = n.Add(1) {
				if left--; left < 0 {
					return errAcks
				}
				visit(n)
			}
		}
	}
	return nil
}

// overlap is what a range that does not wrap has in common with the numbers remembered, which may wrap: two ranges, of
// which an empty one ends before it starts.
func (f *flight) overlap(r ackRange) [2]ackRange {
	if f.base == f.next {
		return [2]ackRange{emptyRange, emptyRange}
	}
	newest := f.next.Add(-1)
	if f.base <= newest {
		return [2]ackRange{common(r, ackRange{f.base, newest}), emptyRange}
	}
	return [2]ackRange{common(r, ackRange{f.base, seq24Mask}), common(r, ackRange{0, newest})}
}

var emptyRange = ackRange{first: 1, last: 0}

// common is what two ranges share, neither of which wraps.
func common(a, b ackRange) ackRange {
	r := ackRange{first: max(a.first, b.first), last: min(a.last, b.last)}
	if uint32(r.last) < uint32(r.first) {
		return emptyRange
	}
	return r
}
