package raknet

import "time"

// The sender learns which datagrams arrived from acknowledgements, requests to send again, and silence
// (docs/protocols/raknet/recovery.md#recovery-and-congestion).

// acknowledge handles the body of an ACK. It ignores numbers that are not in flight.
func (s *sender) acknowledge(now time.Duration, body []byte) error {
	oldest, newest := time.Duration(-1), s.flight.Base
	err := s.eachNamed(body, func(n Seq24) {
		d := s.flight.at(n)
		was := s.flight.acknowledge(n)
		if was == settled {
			return
		}
		s.Congestion.answered(s.RTT.Smoothed)
		s.passed(d)
		s.answerDoubt(n, true)
		switch was {
		case inFlight:
			s.Congestion.acknowledged(n, int(d.size))
		case lost:
			s.Congestion.spared(n)
		}
		s.AckedAt, s.AckedSent = now, max(s.AckedSent, d.at)
		if d.again {
			return // the transmission that it acknowledges is unknown
		}
		// The oldest datagram of a batch waited longest, and the timeout must allow for that.
		if oldest < 0 || d.at < oldest {
			oldest = d.at
		}
		if newest.Before(n) {
			newest = n
		}
	})
	s.Congestion.judgeLosses(newest)
	if oldest >= 0 {
		if s.RTT.Smoothed == 0 && s.RTT.Deviation != 0 { // the round trip of the offline handshake
			s.Congestion.queue.Lagging = now-oldest > s.RTT.Deviation+s.RTT.Deviation/8+ackLag
		}
		s.RTT.sample(now - oldest)
		s.Congestion.queue.sample(now, now-s.flight.at(newest).at, newest, s.flight.next, s.Congestion.Limiting)
	}
	return err
}

// reject handles the body of a NACK. Its datagrams in flight are sent again at once. One that was already sent again
// waits for a further round trip, so that a peer cannot multiply our traffic. A datagram that was overdue is now known
// as lost.
func (s *sender) reject(now time.Duration, body []byte) error {
	patience := s.RTT.Smoothed
	if patience == 0 {
		patience = s.RTT.timeout()
	}
	newest := s.flight.Base
	err := s.eachNamed(body, func(n Seq24) {
		d := s.flight.at(n)
		if newest.Before(n) {
			newest = n
		}
		if d.state != settled {
			s.Requests = true
			s.AckedSent = max(s.AckedSent, d.at)
		}
		if d.unsure && d.state == expired {
			d.unsure = false
			s.Congestion.blame(n, s.flight.next, false)
		}
		if d.state != inFlight || s.flight.resentLately(n) && now-d.at < patience {
			return
		}
		s.flight.lose(n)
		s.AckedAt = now
		s.Congestion.lost(n, s.flight.next, int(d.size), false)
		s.Lost++
		s.failed(n)
	})
	s.Congestion.judgeLosses(newest)
	return err
}

// advance counts datagrams with an overdue acknowledgement as lost, unless patient is true.
func (s *sender) advance(now time.Duration, patient bool) {
	if now >= s.pacer.WakeAt {
		s.pacer.WakeAt = 0
	}
	if patient {
		return
	}
	timeout := s.RTT.timeout()
	silent, backoff := now-s.AckedAt >= timeout, false
	for n, ok := s.flight.oldestDue(); ok; n, ok = s.flight.oldestDue() {
		d := s.flight.at(n)
		if now-d.at < timeout {
			break
		}
		if d.state == inFlight {
			backoff = s.overdue(n, d, silent) || backoff
		}
		s.flight.expire(n)
	}
	if backoff {
		s.RTT.expire()
	}
}

// overdue handles a datagram whose acknowledgement did not come in time. A lagging peer acknowledges many datagrams at
// once, and each once, so one lost ACK looks like the loss of all. But a peer requests what it misses. overdue reports
// whether the next timeout is longer.
func (s *sender) overdue(n Seq24, d *sentDatagram, silent bool) bool {
	s.Lost++
	s.failed(n)
	if d.unsure = s.Congestion.queue.Lagging && (s.Requests || s.Unasked < mostUnrequested); d.unsure {
		s.Unasked = min(s.Unasked+1, mostUnrequested)
		return s.Congestion.overdue(n, s.flight.next, int(d.size), silent)
	}
	s.Congestion.lost(n, s.flight.next, int(d.size), silent)
	return silent
}

// nextTimeout returns when advance has work, or when delayed data may leave.
func (s *sender) nextTimeout(patient bool) (at time.Duration, ok bool) {
	at, ok = s.pacer.WakeAt, s.pacer.WakeAt != 0
	n, due := s.flight.oldestDue()
	if !due || patient {
		return at, ok
	}
	expiry := s.flight.at(n).at + s.RTT.timeout()
	if ok {
		return min(at, expiry), true
	}
	return expiry, true
}

// eachNamed visits the remembered datagrams in an ACK or NACK. Wide or overlapping ranges do not raise the number of
// visits beyond its bound.
func (s *sender) eachNamed(body []byte, visit func(Seq24)) error {
	var r ackReader
	if err := r.parse(body); err != nil {
		return err
	}
	left := maxFlight
	s.named = false
	for named, ok := r.next(); ok; named, ok = r.next() {
		for _, span := range s.flight.overlap(named) {
			for n := span.first; !span.last.Before(n); n = n.Add(1) {
				if left--; left < 0 {
					return errAcks
				}
				s.named = true
				visit(n)
			}
		}
	}
	return nil
}

// overlap returns the common numbers of a range that does not wrap and the remembered numbers, which may wrap. The
// result is two ranges; an empty range ends before it starts.
func (f *flight) overlap(r ackRange) [2]ackRange {
	if f.Base == f.next {
		return [2]ackRange{emptyRange, emptyRange}
	}
	newest := f.next.Add(-1)
	if f.Base <= newest {
		return [2]ackRange{common(r, ackRange{f.Base, newest}), emptyRange}
	}
	return [2]ackRange{common(r, ackRange{f.Base, seq24Mask}), common(r, ackRange{0, newest})}
}

var emptyRange = ackRange{first: 1, last: 0}

// common returns the intersection of two ranges, neither of which wraps.
func common(a, b ackRange) ackRange {
	r := ackRange{first: max(a.first, b.first), last: min(a.last, b.last)}
	if uint32(r.last) < uint32(r.first) {
		return emptyRange
	}
	return r
}
