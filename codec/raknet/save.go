package raknet

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const savedVersion = 1

var _ = record.Register[savedConn](savedVersion, Stock.Name, Bedrock.Name)

// savedConn is a Conn as a record. Its kind is the protocol's name. The options are not part of it. All durations are
// times since the start.
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
	Shutdown  savedShutdown  `cbor:"19,keyasint,omitempty"`
	Goodbye   savedGoodbye   `cbor:"20,keyasint,omitempty"`
	Sender    savedSender    `cbor:"21,keyasint"`
	Receiver  savedReceiver  `cbor:"22,keyasint"`
	ReportAt  time.Duration  `cbor:"23,keyasint,omitempty"`
	Keepalive savedKeepalive `cbor:"24,keyasint"`
	Clock     savedClock     `cbor:"25,keyasint,omitempty"`
	Untimed   bool           `cbor:"26,keyasint,omitempty"`
	Literal   bool           `cbor:"27,keyasint,omitempty"`
	Sent      uint64         `cbor:"28,keyasint,omitempty"`
	Received  uint64         `cbor:"29,keyasint,omitempty"`
	Early     []savedInbound `cbor:"30,keyasint,omitempty"`
	Idle      bool           `cbor:"31,keyasint,omitempty"` // it has no workspace
	Version   uint8          `cbor:"32,keyasint,omitempty"`
	Mute      bool           `cbor:"33,keyasint,omitempty"`
}

type savedAttempt struct {
	Password     []byte        `cbor:"1,keyasint,omitempty" secret:"true"`
	Pad          uint8         `cbor:"2,keyasint,omitempty"`
	Version      uint8         `cbor:"3,keyasint"`
	Refused      []byte        `cbor:"4,keyasint,omitempty"`
	Tries        int           `cbor:"5,keyasint,omitempty"`
	Probe        int           `cbor:"6,keyasint,omitempty"`
	ServerGUID   uint64        `cbor:"7,keyasint,omitempty" secret:"true"`
	Cookie       *uint32       `cbor:"8,keyasint,omitempty" secret:"true"`
	Encrypts     bool          `cbor:"9,keyasint,omitempty"`
	MTU          uint16        `cbor:"10,keyasint,omitempty"`
	Replied      bool          `cbor:"11,keyasint,omitempty"`
	Requests     int           `cbor:"12,keyasint,omitempty"`
	SentAt       time.Duration `cbor:"13,keyasint,omitempty"`
	TooSoon      bool          `cbor:"14,keyasint,omitempty"`
	KeyedReplies int           `cbor:"15,keyasint,omitempty"`
	RetryAt      time.Duration `cbor:"16,keyasint,omitempty"`

	StrandAt  time.Duration   `cbor:"17,keyasint,omitempty"`
	StrandWhy codec.Stranding `cbor:"18,keyasint,omitempty"`
	Redials   uint8           `cbor:"19,keyasint,omitempty"`
	Back      bool            `cbor:"20,keyasint,omitempty"`
}

type savedShutdown struct {
	Reason  codec.Reason  `cbor:"1,keyasint,omitempty"`
	ByeAt   time.Duration `cbor:"2,keyasint,omitempty"`
	EndAt   time.Duration `cbor:"3,keyasint,omitempty"`
	ByeSent bool          `cbor:"4,keyasint,omitempty"`
	Flows   bool          `cbor:"5,keyasint,omitempty"`
}

type savedGoodbye struct {
	Heard    bool          `cbor:"1,keyasint,omitempty"`
	At       time.Duration `cbor:"2,keyasint,omitempty"`
	Patience time.Duration `cbor:"3,keyasint,omitempty"`
	PingAt   time.Duration `cbor:"4,keyasint,omitempty"`
	EndAt    time.Duration `cbor:"5,keyasint,omitempty"`
	Answered bool          `cbor:"6,keyasint,omitempty"`
	Pings    uint8         `cbor:"7,keyasint,omitempty"`
	Guessed  bool          `cbor:"8,keyasint,omitempty"`
}

type savedKeepalive struct {
	HeardAt    time.Duration `cbor:"1,keyasint,omitempty"`
	ActiveAt   time.Duration `cbor:"2,keyasint,omitempty"`
	PingedAt   time.Duration `cbor:"3,keyasint,omitempty"`
	PingDue    bool          `cbor:"4,keyasint,omitempty"`
	PingMode   codec.Mode    `cbor:"5,keyasint,omitempty"`
	Pong       bool          `cbor:"6,keyasint,omitempty"`
	Ponged     bool          `cbor:"7,keyasint,omitempty"`
	Untimed    bool          `cbor:"8,keyasint,omitempty"`
	Unanswered uint8         `cbor:"9,keyasint,omitempty"`
	PongTime   uint64        `cbor:"10,keyasint,omitempty"`
	SentTime   uint64        `cbor:"11,keyasint,omitempty"`
	SentAt     time.Duration `cbor:"12,keyasint,omitempty"`
	RTT        savedRTT      `cbor:"13,keyasint,omitempty"`
	PongClock  uint64        `cbor:"14,keyasint,omitempty"`
	PongAt     time.Duration `cbor:"15,keyasint,omitempty"`
	Far        time.Duration `cbor:"16,keyasint,omitempty"`
	AskedAt    time.Duration `cbor:"17,keyasint,omitempty"`
	Reflected  bool          `cbor:"18,keyasint,omitempty"`
}

type savedRTT struct {
	Smoothed  time.Duration `cbor:"1,keyasint,omitempty"`
	Deviation time.Duration `cbor:"2,keyasint,omitempty"`
	Backoff   uint8         `cbor:"3,keyasint,omitempty"`
}

type savedClock struct {
	Samples []savedClockSample `cbor:"1,keyasint,omitempty"` // by place, without unused ones at the end
	Next    uint8              `cbor:"2,keyasint,omitempty"`
	Best    uint8              `cbor:"3,keyasint,omitempty"`
}

type savedClockSample struct {
	_         struct{} `cbor:",toarray"`
	RoundTrip time.Duration
	Ahead     uint64
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	peer, _ := c.peer.MarshalBinary() // a valid address has no error
	s := &c.shutdown
	v := savedConn{
		Head: record.Head{Kind: c.p.spec.Name, Version: savedVersion},
		Peer: peer, Start: record.MomentOf(now, c.start), Phase: c.phase,
		Dialed: c.dialed, Tentative: c.tentative, Ahead: c.ahead, Family: c.family,
		GUID: c.guid, Server: c.server, Version: c.version, LongList: c.longList, Pressure: c.pressure, Round: c.round,
		Attempt: c.attempt.save(), AskedAt: c.askedAt, UpSince: c.upSince, PongDue: c.pongDue,
		Shutdown: savedShutdown{Reason: s.reason, ByeAt: s.byeAt, EndAt: s.endAt, ByeSent: s.byeSent, Flows: s.flows},
		Goodbye:  c.goodbye.save(),
		Sender:   c.sender.save(), Receiver: c.receiver.save(c.p.o.MaxAssembly), ReportAt: c.reportAt,
		Keepalive: c.keepalive.save(), Clock: c.clock.save(),
		Untimed: c.quirks.untimed, Literal: c.quirks.literal, Sent: c.sent, Received: c.received,
		Idle: c.workspace == &noWorkspace, Mute: c.mute,
	}
	for i := range c.early.list {
		v.Early = append(v.Early, c.early.list[i].save())
	}
	return record.Append(b, &v)
}

func (a *attempt) save() *savedAttempt {
	if a == nil {
		return nil
	}
	v := &savedAttempt{
		Password: a.password, Pad: a.pad, Version: a.version, Refused: a.refused, Tries: a.tries, Probe: a.probe,
		ServerGUID: a.reply.guid, Encrypts: a.reply.encrypts, MTU: a.reply.mtu,
		Replied: a.replied, Requests: a.requests, SentAt: a.sentAt, TooSoon: a.tooSoon, KeyedReplies: a.keyedReplies,
		RetryAt: a.retryAt, StrandAt: a.strand.at, StrandWhy: a.strand.why, Redials: a.strand.redials, Back: a.strand.back,
	}
	if a.reply.hasCookie {
		v.Cookie = &a.reply.cookie
	}
	return v
}

func (k *keepalive) save() savedKeepalive {
	return savedKeepalive{
		HeardAt: k.heardAt, ActiveAt: k.activeAt, PingedAt: k.pingedAt, PingDue: k.pingDue, PingMode: k.pingMode,
		Pong: k.pong, Ponged: k.ponged, Untimed: k.untimed, Unanswered: k.unanswered,
		PongTime: k.pongTime, SentTime: k.sentTime, SentAt: k.sentAt, RTT: k.rtt.save(),
		PongClock: k.pongClock, PongAt: k.pongAt, Far: k.far, AskedAt: k.askedAt, Reflected: k.reflected,
	}
}

func (r *rtt) save() savedRTT {
	return savedRTT{Smoothed: r.smoothed, Deviation: r.deviation, Backoff: r.backoff}
}

func (v *savedRTT) restore() rtt {
	return rtt{smoothed: v.Smoothed, deviation: v.Deviation, backoff: v.Backoff}
}

func (k *peerClock) save() savedClock {
	v := savedClock{Next: k.next, Best: k.best}
	for _, s := range k.samples {
		if s.roundTrip > 0 {
			v.Samples = append(v.Samples, savedClockSample{RoundTrip: s.roundTrip, Ahead: s.ahead})
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
	if v.Attempt != nil {
		v.Attempt.restore(&c.attemptRoom)
		c.attemptRoom.from = from
		c.attempt = &c.attemptRoom
	}
	c.askedAt, c.upSince, c.pongDue = v.AskedAt, v.UpSince, v.PongDue
	s := &v.Shutdown
	c.shutdown = shutdown{reason: s.Reason, byeAt: s.ByeAt, endAt: s.EndAt, byeSent: s.ByeSent, flows: s.Flows}
	c.goodbye = v.Goodbye.restore()
	c.sender.bits = c.countsBits()
	if mtu := v.Sender.MTU; mtu > 0 {
		c.setMTU(mtu)
	}
	c.reportAt, c.keepalive, c.clock = v.ReportAt, v.Keepalive.restore(), v.Clock.restore()
	c.quirks, c.sent, c.received = quirks{untimed: v.Untimed, literal: v.Literal}, v.Sent, v.Received
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
		c.early.bytes += cap(m.payload)
	}
	if v.Idle && c.sender.isIdle() && c.receiver.isIdle() && c.attempt == nil && len(c.early.list) == 0 {
		c.leave()
	}
	return c, nil
}

func (v *savedAttempt) restore(a *attempt) {
	*a = attempt{
		password: append(a.password[:0], v.Password...), pad: v.Pad, version: v.Version, refused: v.Refused,
		tries: v.Tries, probe: v.Probe,
		reply:   openConnectionReply1{guid: v.ServerGUID, hasCookie: v.Cookie != nil, encrypts: v.Encrypts, mtu: v.MTU},
		replied: v.Replied, requests: v.Requests, sentAt: v.SentAt, tooSoon: v.TooSoon, keyedReplies: v.KeyedReplies,
		retryAt: v.RetryAt,
		strand:  strand{at: v.StrandAt, why: v.StrandWhy, redials: v.Redials, back: v.Back},
	}
	if v.Cookie != nil {
		a.reply.cookie = *v.Cookie
	}
}

func (v *savedKeepalive) restore() keepalive {
	return keepalive{
		heardAt: v.HeardAt, activeAt: v.ActiveAt, pingedAt: v.PingedAt, pingDue: v.PingDue, pingMode: v.PingMode,
		pong: v.Pong, ponged: v.Ponged, untimed: v.Untimed, unanswered: v.Unanswered,
		pongTime: v.PongTime, sentTime: v.SentTime, sentAt: v.SentAt, rtt: v.RTT.restore(),
		pongClock: v.PongClock, pongAt: v.PongAt, far: v.Far, askedAt: v.AskedAt, reflected: v.Reflected,
	}
}

func (v *savedClock) restore() peerClock {
	k := peerClock{next: v.Next, best: v.Best}
	for i, s := range v.Samples {
		k.samples[i] = clockSample{roundTrip: s.RoundTrip, ahead: s.Ahead}
	}
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
	case (a != nil) != (v.Phase == probing):
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
func (p phase) isServers() bool { return p >= deferred && p <= admitted }

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
		times = append(times, a.SentAt, a.RetryAt, a.StrandAt)
	}
	for _, t := range times {
		if t < -maxSpan || t > maxSpan {
			return saved.Fault("time", t)
		}
	}
	for _, t := range []*savedRTT{&k.RTT, &s.RTT} {
		if t.Smoothed < 0 || t.Smoothed > time.Minute || t.Deviation < 0 || t.Deviation > time.Minute || t.Backoff > 8 {
			return saved.Fault("round-trip time", t.Smoothed)
		}
	}
	return nil
}
