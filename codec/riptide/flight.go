package riptide

import (
	"iter"
	"time"

	"tidegate/codec"
)

// maxWaiting bounds the reliable messages of one connection that wait to be sent or acknowledged. It stays well under
// half of the sequence numbers, so that they can be compared.
const maxWaiting = 1 << 14

// flight holds our reliable messages from Send until their acknowledgement. Messages from oldest to before unsent have
// been sent. Messages from unsent to before next wait for room. A ring indexed by sequence number holds them. A list
// threaded through it keeps the sent ones in the order of their last transmission; the first is due first.
type flight struct {
	ring                 []inFlight // length a power of two, or nil
	oldest, unsent, next seq
	first, last          seq // ends of the list, if listed > 0
	listed               int
	bytes                int
	spare                buffers
}

// inFlight is one reliable message. Its datagram is nil if the place is free.
type inFlight struct {
	datagram   []byte
	sentAt     time.Time
	waited     time.Duration // from the first transmission to the last
	receipt    codec.Receipt
	sends      uint8
	prev, succ seq
}

// newFlight returns a flight that numbers its first message s.
func newFlight(s seq) flight { return flight{oldest: s, unsent: s, next: s} }

func (f *flight) isFull() bool { return f.next-f.oldest >= maxWaiting }
func (f *flight) isIdle() bool { return f.next == f.oldest }

// at returns the message with number s, which must be held.
func (f *flight) at(s seq) *inFlight { return &f.ring[int(s)&(len(f.ring)-1)] }

// get returns the message with number s if it was sent and is not acknowledged yet, else nil.
func (f *flight) get(s seq) *inFlight {
	if s.before(f.oldest) || !s.before(f.unsent) || f.at(s).datagram == nil {
		return nil
	}
	return f.at(s)
}

// hold keeps a datagram until its turn. The datagram has number f.next and is in a buffer of f.spare.
func (f *flight) hold(datagram []byte, r codec.Receipt) {
	if int(f.next-f.oldest) == len(f.ring) {
		f.grow()
	}
	*f.at(f.next) = inFlight{datagram: datagram, receipt: r}
	f.bytes += len(datagram)
	f.next++
}

// transmitNext takes the next waiting message for its first transmission, unless limit messages lie between it and the
// oldest unacknowledged one.
func (f *flight) transmitNext(now time.Time, limit int) (seq, bool) {
	if f.unsent == f.next || int(f.unsent-f.oldest) >= limit {
		return 0, false
	}
	s := f.unsent
	f.unsent++
	f.sent(now, s)
	return s, true
}

// acknowledge removes message s after its acknowledgement. It returns the message's record.
func (f *flight) acknowledge(s seq) (m inFlight, ok bool) {
	p := f.get(s)
	if p == nil {
		return inFlight{}, false
	}
	m = *p
	f.unlist(s)
	f.bytes -= len(m.datagram)
	f.spare.put(m.datagram)
	*p = inFlight{}
	for f.oldest != f.unsent && f.at(f.oldest).datagram == nil {
		f.oldest++
	}
	return m, true
}

// due returns the sent message with the oldest last transmission.
func (f *flight) due() (s seq, m *inFlight, ok bool) {
	if f.listed == 0 {
		return 0, nil, false
	}
	return f.first, f.at(f.first), true
}

// resend moves sent message s to the end of the list.
func (f *flight) resend(now time.Time, s seq) {
	f.unlist(s)
	m := f.at(s)
	m.waited += now.Sub(m.sentAt)
	f.sent(now, s)
}

// receipts returns the receipts of all held messages, in the order sent, and forgets them.
func (f *flight) receipts() iter.Seq[codec.Receipt] {
	return func(yield func(codec.Receipt) bool) {
		for s := f.oldest; s != f.next; s++ {
			r := f.at(s).receipt
			f.at(s).receipt = 0
			if r != 0 && !yield(r) {
				return
			}
		}
	}
}

// relax frees memory if no message is held.
func (f *flight) relax() {
	if f.isIdle() {
		f.ring = nil
		f.spare.relax()
	}
}

func (f *flight) sent(now time.Time, s seq) {
	m := f.at(s)
	m.sentAt = now
	m.sends++
	if f.listed == 0 {
		f.first = s
	} else {
		f.at(f.last).succ = s
		m.prev = f.last
	}
	f.last = s
	f.listed++
}

func (f *flight) unlist(s seq) {
	m := f.at(s)
	if s == f.first {
		f.first = m.succ
	} else {
		f.at(m.prev).succ = m.succ
	}
	if s == f.last {
		f.last = m.prev
	} else {
		f.at(m.succ).prev = m.prev
	}
	f.listed--
}

func (f *flight) grow() {
	old := *f
	f.ring = make([]inFlight, max(16, 2*len(old.ring)))
	for s := old.oldest; s != old.next; s++ {
		*f.at(s) = *old.at(s)
	}
}

// Times of the library's resends, and of ours. docs/protocols/riptide.md#resends
const (
	firstResend   = 50 * time.Millisecond // while no round trip has been measured
	minimumResend = 10 * time.Millisecond
	tickResend    = 30 * time.Millisecond // of our first one, for a peer that reads its socket at 60 Hz
)

// leastWhole is the shortest round trip that counts between server and player. A server resends after 1.2 times what
// we tell it. It does so before it reads its socket, so a time below its tick sends each message twice. 60 ms exceed a
// tick of 20 Hz. 15 sends then last for 0.9 s or longer.
const leastWhole = 50 * time.Millisecond

// mostStarved is the number of messages in a row that were sent several times before their acknowledgement. Those
// measure nothing if the path loses the first transmission. So many show that the path has become slower.
const mostStarved = 4

// patientSends is the number of transmissions after which a message is sent again at a slower pace. The library's times
// would give a connection on a short path up after 150 ms. Its own ticks are too coarse for that, and a player far from
// its server resends more slowly. So from then on we wait so long that 15 sends take at least as long as the player's.
const patientSends = 5

// patientResend is the least of these waits. A peer of 20 Hz measures 1 to 2 ticks and repeats in whole ticks. So its
// 15 sends last for more than 1 s, also on a LAN, and ours for 1.27 s.
const patientResend = 110 * time.Millisecond

// rtt is the smoothed round-trip time: seven parts of the old value and three parts of the new one, at least a
// millisecond.
type rtt struct {
	Smooth  time.Duration    `cbor:"1,keyasint,omitempty"` // zero until measured
	Own     bool             `cbor:"3,keyasint,omitempty"` // a sample was our own measurement, not the peer's figure
	Starved uint8            `cbor:"4,keyasint,omitempty"` // messages in a row that were sent several times
	Far     time.Duration    `cbor:"5,keyasint,omitempty"` // between the proxy and the far peer; zero: unknown
	Slowest [2]time.Duration `cbor:"6,keyasint,omitempty"` // longest samples of this heartbeat and of the one before
}

// measure takes a sample of our own.
func (r *rtt) measure(sample time.Duration) {
	if !r.Own {
		r.Own, r.Smooth = true, 0
	}
	r.Starved = 0
	r.sample(sample)
	r.Slowest[0] = max(r.Slowest[0], sample)
}

// turn begins another heartbeat.
func (r *rtt) turn() { r.Slowest = [2]time.Duration{0, r.Slowest[0]} }

// starve takes the time from the first transmission of a message to its acknowledgement. The message was sent several
// times.
func (r *rtt) starve(since time.Duration) {
	if r.Starved++; r.Starved >= mostStarved {
		r.Starved, r.Smooth = 0, max(r.Smooth, since)
	}
}

// claim takes the peer's figure, until we have measured ourselves.
func (r *rtt) claim(sample time.Duration) {
	if !r.Own {
		r.sample(sample)
	}
}

func (r *rtt) sample(d time.Duration) {
	d = max(d, time.Millisecond)
	if r.Smooth == 0 {
		r.Smooth = d
		return
	}
	r.Smooth = (7*r.Smooth + 3*d) / 10
}

// resend returns how long a reliable message waits for its acknowledgement after the given number of sends. The first
// time it waits for the slowest of late. A peer acknowledges in the ticks of its game loop.
func (r *rtt) resend(sends uint8) time.Duration {
	if r.Smooth == 0 {
		return firstResend
	}
	after := max(minimumResend, r.Smooth*6/5)
	if sends == 1 {
		after = max(tickResend, after, r.Slowest[0]*6/5, r.Slowest[1]*6/5)
	}
	if sends >= patientSends {
		after = max(after, r.whole()*5/3, patientResend)
	}
	return after
}

// whole returns the round trip between server and player.
func (r *rtt) whole() time.Duration { return max(r.Smooth+r.Far, leastWhole) }

// milliseconds returns the round trip between server and player as a heartbeat tells it, or -1 if there is none.
func (r *rtt) milliseconds() int16 {
	if r.Smooth == 0 {
		return -1
	}
	return int16(min(r.whole().Milliseconds(), 1<<15-1))
}

var _ codec.Relayer = (*Conn)(nil)

// FarRTT implements codec.Relayer. Heartbeats tell it to a server, in milliseconds, and a client measures it.
func (c *Conn) FarRTT(d time.Duration) (changed bool) {
	d = d.Truncate(time.Millisecond)
	changed = d != c.rtt.Far
	c.rtt.Far = d
	return changed
}

// ServerRTT implements codec.Relayer. An answer waits for half a tick in the mean and for a whole one at most. A single
// answer that took longer was late for another reason.
func (c *Conn) ServerRTT() time.Duration {
	r := &c.rtt
	return max(r.Smooth, min(2*r.Smooth, max(r.Slowest[0], r.Slowest[1])))
}

// Limits of the library's measures of a connection that is too poor to continue. docs/protocols/riptide.md#quality
const (
	qualitySpan  = 64 // number of latest results in a measure
	qualityRuns  = 64 // number of bad measures in a row that end the connection
	maxMeanSends = 5
)

// sendQuality measures how many transmissions the latest delivered reliable messages needed.
type sendQuality struct {
	sends [qualitySpan]uint8 `cbor:"1,keyasint,omitempty" record:"list"`
	count int                `cbor:"2,keyasint,omitempty"`
	at    int                `cbor:"3,keyasint,omitempty"`
	sum   int
	bad   int `cbor:"4,keyasint,omitempty"`
}

// delivered records a message's transmissions and reports whether the connection is too poor.
func (q *sendQuality) delivered(sends uint8) bool {
	q.sum += int(sends) - int(q.sends[q.at])
	q.sends[q.at] = sends
	q.at = (q.at + 1) % qualitySpan
	q.count = min(q.count+1, qualitySpan)
	if q.sum <= maxMeanSends*q.count {
		q.bad = 0
		return false
	}
	q.bad++
	return q.bad >= qualityRuns
}

var _ codec.LossTolerant = (*Conn)(nil)

// TolerateLoss implements codec.LossTolerant. Until t, messages are sent as patiently as in 2.0, and quality is not
// measured.
func (c *Conn) TolerateLoss(until time.Time) {
	c.tolerantUntil = until
	c.sends = sendQuality{}
}

// isPatient reports whether a message sent at sentAt has slowSends after maxSends.
func (c *Conn) isPatient(sentAt time.Time) bool {
	return c.options.patient || sentAt.Before(c.tolerantUntil)
}
