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
		if was == inFlight {
			s.Congestion.acknowledged(n, int(d.size))
		} else if !d.unsure {
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
	if s.flight.Literal && d.again && s.flight.refused(n, d.at, s.AckedSent) {
		s.flight.becomeUsual()
		s.Few = true // RakLib is such a peer
	}
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

// Bounds of the retransmission timeout. The first one holds until a round trip was measured. Stock RakNet has 2 s as
// the first and as the longest. A first one of half a second repairs a lossy handshake sooner, and duplicates one
// message at worst. Backoff ends early, since a player waits. A dead peer gets each message ten times until it is
// given up, where stock RakNet sends it a hundred times.
const (
	firstTimeout   = 500 * time.Millisecond
	longestTimeout = 2 * time.Second
	longestBackoff = time.Second
	timeoutSlack   = 30 * time.Millisecond // the peer's ticks
	// handshakeSlack is the slack while the peer's acknowledgements are unknown: go-raknet's wait for a tick of 100 ms.
	handshakeSlack = 110 * time.Millisecond
)

// rtt estimates the round trip, and from it the time after which a datagram counts as lost. Each transmission has its
// own number, so every acknowledgement is a valid sample.
type rtt struct {
	Smoothed time.Duration `cbor:"1,keyasint,omitempty"` // 0 until there is a sample
	// Deviation is, before the first sample, the round trip of the offline handshake, if measured.
	Deviation time.Duration `cbor:"2,keyasint,omitempty"`
	Backoff   uint8         `cbor:"3,keyasint,omitempty"` // doublings of the timeout since the last acknowledgement
}

// sample takes one measured round trip, with the gains of RFC 6298.
func (r *rtt) sample(d time.Duration) {
	r.Backoff = 0
	if r.Smoothed == 0 {
		r.Smoothed, r.Deviation = max(d, 1), d/2
		return
	}
	r.Deviation += ((d - r.Smoothed).Abs() - r.Deviation) / 4
	r.Smoothed = max(r.Smoothed+(d-r.Smoothed)/8, 1)
}

// expect takes the time from the last request of the offline handshake to its answer. It replaces a sample until there
// is one. If the answer belongs to an earlier request, the time is too short. That costs a copy of the next datagram.
func (r *rtt) expect(d time.Duration) {
	if r.Smoothed == 0 && (r.Deviation == 0 || d < r.Deviation) {
		r.Deviation = max(d, 1)
	}
}

// timeout returns how long to wait for an acknowledgement, by RFC 6298. Stock RakNet waits a round trip longer, but
// has no backoff (docs/protocols/raknet/recovery.md#recovery-and-congestion).
func (r *rtt) timeout() time.Duration {
	t := firstTimeout
	switch handshake := r.Deviation; {
	case r.Smoothed != 0:
		t = r.Smoothed + 4*r.Deviation + timeoutSlack
	case handshake != 0:
		// This is the value after a first sample. Beyond firstTimeout the sample may include the wait for a lost datagram.
		t = min(3*handshake+handshakeSlack, max(firstTimeout, handshake+handshakeSlack))
	}
	return min(max(t, min(t<<r.Backoff, longestBackoff)), longestTimeout)
}

// expire doubles the timeout after a timeout without any acknowledgement.
func (r *rtt) expire() {
	if r.timeout() < longestBackoff {
		r.Backoff++
	}
}

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

// stuck counts the repeats of the oldest number that were not acknowledged, though something later was each time.
// jsp-raknet acknowledges all that it gets. So by losses of 5 % each way it seems to refuse once in 10^8 cases.
type stuck struct {
	number Seq24
	times  uint8
	since  time.Duration
}

const (
	mostRefusals = 8
	// spareNumbers are kept for pings, which show that the peer acknowledges something.
	spareNumbers = 2 * mostRefusals
)

// refused learns that a repeat sent at a time is overdue. It reports whether the peer will never take that number.
func (f *flight) refused(n Seq24, at, ackedSent time.Duration) bool {
	f.trim()
	r := &f.stuck
	switch {
	case n != f.Base:
		return false
	case n != r.number:
		*r = stuck{number: n, since: at}
	}
	if ackedSent > r.since {
		r.times, r.since = r.times+1, max(at, ackedSent)
	}
	return r.times == mostRefusals
}

// isCrowded reports whether a literal peer has room for pings alone.
func (f *flight) isCrowded() bool {
	if !f.Literal {
		return false
	}
	f.trim()
	return f.next.Sub(f.Base) >= literalRoom-spareNumbers
}

// becomeUsual is called when the peer has turned out not to be literal.
func (f *flight) becomeUsual() {
	f.Literal, f.repeats = false, nil
	for n := f.Base; n != f.next; n = n.Add(1) {
		if s := f.at(n).state; s == lost || s == expired {
			f.queueParts(n)
		}
	}
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
