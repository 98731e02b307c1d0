package raknet

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const savedVersion = 1

var _ = record.Register[savedConn](savedVersion, "raknet", "bedrock")

// savedConn is a Conn as a record. Its kind is the protocol's name. The options are not part of it. All durations are
// times since the start.
type savedConn struct {
	record.Head
	*Conn
	Attempt  *savedAttempt `cbor:"15,keyasint,omitempty"`
	Sender   savedSender   `cbor:"21,keyasint"`
	Receiver savedReceiver `cbor:"22,keyasint"`
	Clock    savedClock    `cbor:"25,keyasint,omitempty"`
	Idle     bool          `cbor:"31,keyasint,omitempty"` // it has no workspace
}

type savedAttempt struct {
	*attempt
	Cookie *uint32 `cbor:"8,keyasint,omitempty" secret:"true"`
}

type savedClock struct {
	*peerClock
	Samples []clockSample `cbor:"1,keyasint,omitempty"` // by place, without unused ones at the end
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	samples := slices.Clone(c.clock.samples[:])
	v := savedConn{
		Head: record.Head{Kind: c.p.spec.Name, Version: savedVersion}, Conn: c,
		Sender: c.sender.save(), Receiver: c.receiver.save(c.p.o.MaxAssembly), Idle: c.workspace == &noWorkspace,
		Clock: savedClock{&c.clock, slices.DeleteFunc(samples, func(s clockSample) bool { return s.RoundTrip <= 0 })},
	}
	if a := c.asking; a != nil && c.phase.hasAttempt() {
		if v.Attempt = (&savedAttempt{attempt: a}); a.reply.hasCookie {
			v.Attempt.Cookie = &a.reply.cookie
		}
	}
	return record.AppendAt(now, b, &v)
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, from codec.Addresser, b []byte) (codec.Conn, error) {
	c := newConn(p, now, netip.AddrPort{}, closed)
	v := savedConn{
		Conn: c, Sender: savedSender{sender: &c.sender, Flight: savedFlight{flight: &c.sender.flight}},
		Receiver: savedReceiver{receiver: &c.receiver}, Clock: savedClock{peerClock: &c.clock},
	}
	if err := saved.ReadAt(now, b, p.spec.Name, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	switch a := v.Attempt; {
	case a != nil:
		if a.from, a.reply.hasCookie = from, a.Cookie != nil; a.Cookie != nil {
			a.reply.cookie = *a.Cookie
		}
		c.asking = a.attempt
	case c.phase <= waiting:
		c.asking = new(attempt)
	}
	if c.phase == probing {
		c.attempt = c.asking
	}
	c.goodbye.Pings = min(c.goodbye.Pings, goodbyePair)
	c.sender.bits = c.countsBits()
	copy(c.clock.samples[:], v.Clock.Samples)
	if g := c.sender.Congestion; c.sender.MTU > 0 {
		c.setMTU(c.sender.MTU, c.sender.MTU)
		g.segment = c.sender.Congestion.segment
		c.sender.Congestion = g
	}
	if err := c.sender.restore(&v.Sender, &p.o); err != nil {
		return nil, err
	}
	if err := c.receiver.restore(&v.Receiver, &p.o); err != nil {
		return nil, err
	}
	for i := range c.early.list {
		m := &c.early.list[i]
		if err := m.restore(c.memory); err != nil {
			return nil, err
		}
		c.early.bytes += cap(m.Payload)
	}
	if v.Idle && c.sender.isIdle() && c.receiver.isIdle() && c.attempt == nil && len(c.early.list) == 0 {
		c.leave()
	}
	return c, nil
}

// check holds a record to the bounds of a Conn. Only an early phase has an attempt, and no MTU.
func (v *savedConn) check() error {
	a := v.Attempt
	switch {
	case !v.peer.IsValid():
		return saved.Fault("address of the peer", v.peer)
	case v.phase > closed:
		return saved.Fault("phase", v.phase)
	case v.phase.isClients() && !v.dialed, v.phase.isServers() && v.dialed:
		return saved.Fault("side of the phase", v.phase)
	case v.pressure > codec.Refuse:
		return saved.Fault("pressure", v.pressure)
	}
	switch m := v.sender.MTU; {
	case a == nil && v.phase == probing, a != nil && !v.phase.hasAttempt():
		return saved.Fault("attempt in the phase", v.phase)
	case m == 0 && v.phase != probing && v.phase != closed, m != 0 && (m < leastMTU || m > mostMTU):
		return saved.Fault("MTU", m)
	case v.clock.next >= clockSamples || v.clock.best >= clockSamples || len(v.Clock.Samples) > clockSamples:
		return saved.Fault("samples of the clock", len(v.Clock.Samples))
	case int(v.shutdown.Reason) >= codec.ReasonCount:
		return saved.Fault("reason", v.shutdown.Reason)
	case v.keepalive.PingMode > codec.Notify:
		return saved.Fault("mode of a ping", v.keepalive.PingMode)
	case len(v.early.list) > maxEarly:
		return saved.Fault("number of early messages", len(v.early.list))
	}
	if a != nil && (a.Tries < 0 || a.Tries > maxTries || a.Requests < 0 || a.Requests > maxTries || a.Probe < 0 ||
		a.Probe > mostMTU || a.Widest > mostMTU || len(a.Refused) > maxTries || a.StrandWhy > codec.KnownByEarlier) {
		return saved.Fault("number of requests", a.Tries)
	}
	return v.checkTimes()
}

func (p phase) isClients() bool { return p <= requesting || p == accepted }

// hasAttempt reports whether a record of the phase may have an attempt. The records of earlier releases have none of a
// requested connection, which is not requested again then.
func (p phase) hasAttempt() bool { return p == probing || p == requesting }
func (p phase) isServers() bool  { return p >= deferred && p <= admitted }

// Bounds of saved numbers that the running code does not bound by itself.
const (
	leastMTU   = 400
	mostMTU    = 1492
	maxTries   = 1 << 16
	maxSpan    = 10 * 365 * 24 * time.Hour
	maxSegment = 1 << 26 // bytes of a window or of a debt
)

// checkTimes bounds times, so that sums of them do not overflow.
func (v *savedConn) checkTimes() error {
	k, s, r, q := &v.keepalive, &v.sender, &v.receiver, &v.Sender.Queue
	times := []time.Duration{
		v.upSince, v.pongDue, v.shutdown.ByeAt, v.shutdown.EndAt, v.goodbye.At, v.goodbye.Patience, v.goodbye.PingAt,
		v.goodbye.EndAt, v.reportAt, k.HeardAt, k.ActiveAt, k.PingedAt, k.SentAt, k.PongAt, k.Far, k.AskedAt,
		s.AckedAt, s.AckedSent, s.ReliableAt, s.pacer.PacerAt, s.pacer.WakeAt, q.Least, q.Before, q.Since, q.Round,
		r.HeardAt, r.strays.StrayAt, r.giant.GiantSince, r.Patience, r.AcksSince, r.AcksAt, r.AcksWithDataAt, r.RecentAt,
		v.Receiver.HolesAt,
	}
	if a := v.Attempt; a != nil {
		times = append(times, a.SentAt, a.RetryAt, a.StrandAt, a.AskedAt, a.Took)
		for _, asked := range a.Asked {
			times = append(times, asked[:]...)
		}
	}
	for _, t := range times {
		if t < -maxSpan || t > maxSpan {
			return saved.Fault("time", t)
		}
	}
	for _, t := range []*rtt{&k.RTT, &s.RTT} {
		if t.Smoothed < 0 || t.Smoothed > time.Minute || t.Deviation < 0 || t.Deviation > time.Minute || t.Backoff > 8 {
			return saved.Fault("round-trip time", t.Smoothed)
		}
	}
	return nil
}
