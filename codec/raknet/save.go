package raknet

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const savedVersion = 1

var _ = record.Register[savedConn](savedVersion, "raknet", "bedrock")

// savedConn is a Conn as a record. Its kind is the protocol's name. The options are not part of it. All durations are
// times since the start. Parts of a Conn whose fields have numbers are in the record as they are.
type savedConn struct {
	record.Head
	Peer      []byte         `cbor:"3,keyasint"` // as of netip.AddrPort.MarshalBinary
	Start     record.Moment  `cbor:"4,keyasint"`
	Phase     phase          `cbor:"5,keyasint"`
	Dialed    bool           `cbor:"6,keyasint,omitempty"`
	Tentative bool           `cbor:"7,keyasint,omitempty"`
	Ahead     bool           `cbor:"8,keyasint,omitempty"`
	Family    family         `cbor:"9,keyasint,omitempty"`
	GUID      uint64         `cbor:"10,keyasint" secret:"true"`
	Server    uint64         `cbor:"11,keyasint,omitempty" secret:"true"`
	LongList  bool           `cbor:"12,keyasint,omitempty"`
	Pressure  codec.Pressure `cbor:"13,keyasint,omitempty"`
	Round     uint8          `cbor:"14,keyasint,omitempty"`
	Attempt   *savedAttempt  `cbor:"15,keyasint,omitempty"`
	AskedAt   uint64         `cbor:"16,keyasint,omitempty"`
	UpSince   time.Duration  `cbor:"17,keyasint,omitempty"`
	PongDue   time.Duration  `cbor:"18,keyasint,omitempty"`
	Shutdown  shutdown       `cbor:"19,keyasint,omitempty"`
	Goodbye   goodbye        `cbor:"20,keyasint,omitempty"`
	Sender    savedSender    `cbor:"21,keyasint"`
	Receiver  savedReceiver  `cbor:"22,keyasint"`
	ReportAt  time.Duration  `cbor:"23,keyasint,omitempty"`
	Keepalive keepalive      `cbor:"24,keyasint"`
	Clock     savedClock     `cbor:"25,keyasint,omitempty"`
	Untimed   bool           `cbor:"26,keyasint,omitempty"`
	Sent      uint64         `cbor:"28,keyasint,omitempty"`
	Received  uint64         `cbor:"29,keyasint,omitempty"`
	Early     []inbound      `cbor:"30,keyasint,omitempty"`
	Idle      bool           `cbor:"31,keyasint,omitempty"` // it has no workspace
	Version   uint8          `cbor:"32,keyasint,omitempty"`
	Mute      bool           `cbor:"33,keyasint,omitempty"`
}

type savedAttempt struct {
	attempt
	ServerGUID uint64  `cbor:"7,keyasint,omitempty" secret:"true"`
	Cookie     *uint32 `cbor:"8,keyasint,omitempty" secret:"true"`
	Encrypts   bool    `cbor:"9,keyasint,omitempty"`
	MTU        uint16  `cbor:"10,keyasint,omitempty"`
}

type savedClock struct {
	Samples []clockSample `cbor:"1,keyasint,omitempty"` // by place, without unused ones at the end
	Next    uint8         `cbor:"2,keyasint,omitempty"`
	Best    uint8         `cbor:"3,keyasint,omitempty"`
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	peer, _ := c.peer.MarshalBinary() // a valid address has no error
	v := savedConn{
		Head: record.Head{Kind: c.p.spec.Name, Version: savedVersion},
		Peer: peer, Start: record.MomentOf(now, c.start), Phase: c.phase,
		Dialed: c.dialed, Tentative: c.tentative, Ahead: c.ahead, Family: c.family,
		GUID: c.guid, Server: c.server, Version: c.version, LongList: c.longList, Pressure: c.pressure, Round: c.round,
		Attempt: c.asking.save(c.phase), AskedAt: c.askedAt, UpSince: c.upSince, PongDue: c.pongDue,
		Shutdown: c.shutdown, Goodbye: c.goodbye,
		Sender: c.sender.save(), Receiver: c.receiver.save(c.p.o.MaxAssembly), ReportAt: c.reportAt,
		Keepalive: c.keepalive, Clock: c.clock.save(),
		Untimed: c.quirks.untimed, Sent: c.sent, Received: c.received,
		Early: c.early.list, Idle: c.workspace == &noWorkspace, Mute: c.mute,
	}
	return record.Append(b, &v)
}

func (a *attempt) save(p phase) *savedAttempt {
	if a == nil || !p.hasAttempt() {
		return nil
	}
	v := &savedAttempt{attempt: *a, ServerGUID: a.reply.guid, Encrypts: a.reply.encrypts, MTU: a.reply.mtu}
	if a.reply.hasCookie {
		v.Cookie = &a.reply.cookie
	}
	return v
}

func (k *peerClock) save() savedClock {
	v := savedClock{Next: k.next, Best: k.best}
	for _, s := range k.samples {
		if s.RoundTrip > 0 {
			v.Samples = append(v.Samples, s)
		}
	}
	return v
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, from codec.Addresser, b []byte) (codec.Conn, error) {
	var v savedConn
	if err := saved.Read(b, p.spec.Name, savedVersion, &v); err != nil {
		return nil, err
	}
	var peer netip.AddrPort
	if err := peer.UnmarshalBinary(v.Peer); err != nil {
		return nil, saved.Fault("address of the peer", err)
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	c := newConn(p, v.Start.Time(now), peer, v.Phase)
	c.dialed, c.tentative, c.ahead, c.family = v.Dialed, v.Tentative, v.Ahead, v.Family
	c.version, c.guid, c.server, c.longList = v.Version, v.GUID, v.Server, v.LongList
	c.pressure, c.round, c.mute = v.Pressure, v.Round, v.Mute
	if v.Phase <= waiting || v.Attempt != nil {
		c.asking = new(attempt)
	}
	if v.Attempt != nil {
		v.Attempt.restore(c.asking)
		c.asking.from = from
	}
	if v.Phase == probing {
		c.attempt = c.asking
	}
	c.askedAt, c.upSince, c.pongDue = v.AskedAt, v.UpSince, v.PongDue
	c.shutdown, c.goodbye = v.Shutdown, v.Goodbye
	c.goodbye.Pings = min(v.Goodbye.Pings, goodbyePair)
	c.sender.bits = c.countsBits()
	if mtu := v.Sender.MTU; mtu > 0 {
		c.setMTU(mtu)
	}
	c.reportAt, c.keepalive, c.clock = v.ReportAt, v.Keepalive, v.Clock.restore()
	c.quirks, c.sent, c.received = quirks{untimed: v.Untimed}, v.Sent, v.Received
	if err := c.sender.restore(&v.Sender, &p.o); err != nil {
		return nil, err
	}
	if err := c.receiver.restore(&v.Receiver, &p.o); err != nil {
		return nil, err
	}
	for i := range v.Early {
		m, err := v.Early[i].restore(c.memory)
		if err != nil {
			return nil, err
		}
		c.early.list = append(c.early.list, m)
		c.early.bytes += cap(m.Payload)
	}
	if v.Idle && c.sender.isIdle() && c.receiver.isIdle() && c.attempt == nil && len(c.early.list) == 0 {
		c.leave()
	}
	return c, nil
}

func (v *savedAttempt) restore(a *attempt) {
	password := append(a.Password[:0], v.Password...)
	*a = v.attempt
	a.Password = password
	a.reply = openConnectionReply1{guid: v.ServerGUID, hasCookie: v.Cookie != nil, encrypts: v.Encrypts, mtu: v.MTU}
	if v.Cookie != nil {
		a.reply.cookie = *v.Cookie
	}
}

func (v *savedClock) restore() peerClock {
	k := peerClock{next: v.Next, best: v.Best}
	copy(k.samples[:], v.Samples)
	return k
}

// check holds a record to the bounds of a Conn. Only an early phase has an attempt, and no MTU.
func (v *savedConn) check() error {
	a := v.Attempt
	switch {
	case v.Phase > closed:
		return saved.Fault("phase", v.Phase)
	case v.Phase.isClients() && !v.Dialed, v.Phase.isServers() && v.Dialed:
		return saved.Fault("side of the phase", v.Phase)
	case v.Pressure > codec.Refuse:
		return saved.Fault("pressure", v.Pressure)
	}
	switch m := v.Sender.MTU; {
	case a == nil && v.Phase == probing, a != nil && !v.Phase.hasAttempt():
		return saved.Fault("attempt in the phase", v.Phase)
	case m == 0 && v.Phase != probing && v.Phase != closed, m != 0 && (m < leastMTU || m > mostMTU):
		return saved.Fault("MTU", m)
	case v.Clock.Next >= clockSamples || v.Clock.Best >= clockSamples || len(v.Clock.Samples) > clockSamples:
		return saved.Fault("samples of the clock", len(v.Clock.Samples))
	case int(v.Shutdown.Reason) >= codec.ReasonCount:
		return saved.Fault("reason", v.Shutdown.Reason)
	case v.Keepalive.PingMode > codec.Notify:
		return saved.Fault("mode of a ping", v.Keepalive.PingMode)
	case len(v.Early) > maxEarly:
		return saved.Fault("number of early messages", len(v.Early))
	}
	if a != nil && (a.Tries < 0 || a.Tries > maxTries || a.Requests < 0 || a.Requests > maxTries || a.Probe < 0 ||
		a.Probe > mostMTU || len(a.Refused) > maxTries || a.StrandWhy > codec.KnownByEarlier) {
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
	k, s, r := &v.Keepalive, &v.Sender, &v.Receiver
	times := []time.Duration{
		v.UpSince, v.PongDue, v.Shutdown.ByeAt, v.Shutdown.EndAt, v.Goodbye.At, v.Goodbye.Patience, v.Goodbye.PingAt,
		v.Goodbye.EndAt, v.ReportAt, k.HeardAt, k.ActiveAt, k.PingedAt, k.SentAt, k.PongAt, k.Far, k.AskedAt,
		s.AckedAt, s.AckedSent, s.ReliableAt, s.PacerAt, s.WakeAt, s.Queue.Least, s.Queue.Before, s.Queue.Since,
		s.Queue.Round,
		r.HeardAt, r.StrayAt, r.GiantSince, r.Patience, r.AcksSince, r.AcksAt, r.AcksWithDataAt, r.RecentAt, r.HolesAt,
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
