package enet

import (
	"crypto/sha256"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const (
	savedKind    = "enet"
	savedVersion = 1
)

var _ = record.Register[savedConn](savedVersion, savedKind)

// savedConn is a Conn as a record. The options are not part of it.
type savedConn struct {
	record.Head
	Server        bool           `cbor:"3,keyasint,omitempty"`
	Summed        bool           `cbor:"4,keyasint,omitempty"`
	State         state          `cbor:"5,keyasint"`
	Tentative     bool           `cbor:"6,keyasint,omitempty"`
	Proof         ack            `cbor:"7,keyasint"`
	Proving       bool           `cbor:"8,keyasint,omitempty"`
	ProofDue      bool           `cbor:"9,keyasint,omitempty"`
	Secrets       secrets        `cbor:"10,keyasint" secret:"true"`
	Terms         []byte         `cbor:"11,keyasint"` // the body of a Connect
	Peer          uint16         `cbor:"12,keyasint"`
	SessionIn     uint8          `cbor:"13,keyasint"`
	SessionOut    uint8          `cbor:"14,keyasint"`
	MTU           int            `cbor:"15,keyasint"`
	Channels      int            `cbor:"16,keyasint"`
	Window        int            `cbor:"17,keyasint"`
	Epoch         record.Moment  `cbor:"18,keyasint"`
	Handshake     savedHandshake `cbor:"19,keyasint,omitempty"`
	Deadline      record.Moment  `cbor:"20,keyasint,omitempty"`
	Heard         record.Moment  `cbor:"21,keyasint,omitempty"`
	Answered      record.Moment  `cbor:"22,keyasint,omitempty"`
	PeerClock     uint16         `cbor:"23,keyasint,omitempty"`
	PeerClockAt   record.Moment  `cbor:"24,keyasint,omitempty"`
	PeerControl   uint16         `cbor:"25,keyasint"`
	Out           savedOutgoing  `cbor:"26,keyasint"`
	In            savedInbox     `cbor:"27,keyasint"`
	Groups        savedGroups    `cbor:"28,keyasint"`
	GroupOut      uint16         `cbor:"29,keyasint"`
	Acks          []ack          `cbor:"30,keyasint,omitempty"`
	RTT           rtt            `cbor:"31,keyasint"`
	Throttle      savedThrottle  `cbor:"32,keyasint"`
	Why           codec.Reason   `cbor:"33,keyasint,omitempty"`
	Goodbye       uint32         `cbor:"34,keyasint,omitempty"`
	PingDue       bool           `cbor:"35,keyasint,omitempty"`
	DisconnectDue bool           `cbor:"36,keyasint,omitempty"`
	Stats         saved.Stats    `cbor:"37,keyasint"`
	Farewell      savedGoodbye   `cbor:"38,keyasint,omitempty"`
	Pressure      codec.Pressure `cbor:"39,keyasint,omitempty"`
	AcksSince     time.Duration  `cbor:"40,keyasint,omitempty"`
	Mute          bool           `cbor:"41,keyasint,omitempty"`
	Reflected     bool           `cbor:"42,keyasint,omitempty"`
	Packs         bool           `cbor:"43,keyasint,omitempty"`
}

// savedGoodbye is a peer's goodbye that is not believed yet.
type savedGoodbye struct {
	Heard record.Moment `cbor:"1,keyasint,omitempty"`
	End   record.Moment `cbor:"2,keyasint,omitempty"`
	Ping  record.Moment `cbor:"3,keyasint,omitempty"`
	Data  uint32        `cbor:"4,keyasint,omitempty"`
}

type savedHandshake struct {
	Next     record.Moment  `cbor:"1,keyasint,omitempty"`
	Interval time.Duration  `cbor:"2,keyasint,omitempty"`
	Asked    int            `cbor:"3,keyasint,omitempty"`
	Sent     int            `cbor:"4,keyasint,omitempty"`
	Attempts []savedAttempt `cbor:"5,keyasint,omitempty"`
}

type savedAttempt struct {
	_     struct{} `cbor:",toarray"`
	Clock uint16
	At    record.Moment
}

type savedGroups struct {
	Newest uint16   `cbor:"1,keyasint"`
	Seen   []uint64 `cbor:"2,keyasint,omitempty"` // none: nothing has come
	Far    uint16   `cbor:"3,keyasint,omitempty"`
	HasFar bool     `cbor:"4,keyasint,omitempty"`
	Other  uint16   `cbor:"5,keyasint,omitempty"` // the newest of the other window
	Before []uint64 `cbor:"6,keyasint,omitempty"` // the other window
	Has    bool     `cbor:"7,keyasint,omitempty"` // there is another window
}

type savedThrottle struct {
	_                                    struct{} `cbor:",toarray"`
	Interval, Acceleration, Deceleration uint32
	Value, Counter                       uint32
	Began                                record.Moment
	Lowest, Widest, LastRTT, LastWidth   time.Duration
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	t := &c.throttle
	v := savedConn{
		Head:   record.Head{Kind: savedKind, Version: savedVersion},
		Server: c.server, Summed: c.summed, State: c.state, Tentative: c.tentative,
		Proof: c.proof, Proving: c.proving, ProofDue: c.proofDue,
		Secrets: c.secrets, Terms: c.terms.append(nil),
		Peer: c.peer, SessionIn: c.sessionIn, SessionOut: c.sessionOut,
		MTU: c.mtu, Channels: c.channels, Window: c.window, Epoch: record.MomentOf(now, c.epoch),
		Handshake: c.handshake.save(now), Deadline: record.MomentOf(now, c.deadline),
		Heard: record.MomentOf(now, c.heard), Answered: record.MomentOf(now, c.answered),
		PeerClock: c.peerClock.offset, PeerClockAt: record.MomentOf(now, c.peerClock.at), PeerControl: c.peerControl,
		Out: c.saveOutgoing(now), In: c.in.save(now, c.epoch),
		Groups:   savedGroups{Newest: c.groupsIn.newest, Far: c.groupsIn.far, HasFar: c.groupsIn.hasFar},
		GroupOut: c.groupOut,
		RTT:      c.rtt,
		Throttle: savedThrottle{
			Interval: t.terms.interval, Acceleration: t.terms.acceleration, Deceleration: t.terms.deceleration,
			Value: t.value, Counter: t.counter, Began: record.MomentOf(now, t.began),
			Lowest: t.lowest, Widest: t.widest, LastRTT: t.lastRTT, LastWidth: t.lastWidth,
		},
		Why: c.why, Goodbye: c.goodbye, PingDue: c.pingDue, DisconnectDue: c.disconnectDue,
		Stats:    saved.StatsOf(&c.stats),
		Farewell: c.farewell.save(now), Pressure: c.pressure, AcksSince: c.acks.since, Acks: c.acks.list[c.acks.head:],
		Mute: c.mute, Reflected: c.reflected, Packs: c.packs,
	}
	g := &c.groupsIn
	v.Groups.Other, v.Groups.Has = g.other.newest, g.hasOther
	if g.seen != [len(g.seen)]uint64{} {
		v.Groups.Seen = g.seen[:]
	}
	if g.other.seen != [len(g.seen)]uint64{} {
		v.Groups.Before = g.other.seen[:]
	}
	return record.Append(b, &v)
}

func (g *goodbye) save(now time.Time) savedGoodbye {
	return savedGoodbye{
		Heard: record.MomentOf(now, g.heard), End: record.MomentOf(now, g.endAt), Ping: record.MomentOf(now, g.pingAt),
		Data: g.data,
	}
}

func (v *savedGoodbye) restore(now time.Time) goodbye {
	return goodbye{heard: v.Heard.Time(now), endAt: v.End.Time(now), pingAt: v.Ping.Time(now), data: v.Data}
}

func (h *handshake) save(now time.Time) savedHandshake {
	v := savedHandshake{Next: record.MomentOf(now, h.nextAt), Interval: h.interval, Asked: h.asked, Sent: h.sent}
	for _, a := range h.attempts {
		v.Attempts = append(v.Attempts, savedAttempt{Clock: a.clock, At: record.MomentOf(now, a.at)})
	}
	return v
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	var v savedConn
	if err := saved.Read(b, savedKind, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	c := newConn(&p.options, v.Epoch.Time(now), v.Secrets)
	c.server, c.summed, c.packs, c.state, c.tentative = v.Server, v.Summed, v.Packs, v.State, v.Tentative
	c.in.guesses = !v.Summed
	c.proof, c.proving, c.proofDue = v.Proof, v.Proving, v.ProofDue
	c.terms.parse(v.Terms)
	c.peer, c.sessionIn, c.sessionOut = v.Peer, v.SessionIn, v.SessionOut
	c.mtu, c.channels, c.window = v.MTU, v.Channels, v.Window
	c.handshake = v.Handshake.restore(now)
	c.deadline, c.heard, c.answered = v.Deadline.Time(now), v.Heard.Time(now), v.Answered.Time(now)
	c.peerClock = peerClock{offset: v.PeerClock, at: v.PeerClockAt.Time(now)}
	c.peerControl, c.groupOut = v.PeerControl, v.GroupOut
	c.groupsIn = groups{
		window: window{newest: v.Groups.Newest}, far: v.Groups.Far, hasFar: v.Groups.HasFar,
		other: window{newest: v.Groups.Other}, hasOther: v.Groups.Has,
	}
	copy(c.groupsIn.seen[:], v.Groups.Seen)
	copy(c.groupsIn.other.seen[:], v.Groups.Before)
	c.acks.list, c.acks.since, c.pressure, c.mute, c.reflected = v.Acks, v.AcksSince, v.Pressure, v.Mute, v.Reflected
	c.rtt, c.throttle = v.RTT, v.Throttle.restore(now)
	c.why, c.goodbye, c.pingDue, c.disconnectDue = v.Why, v.Goodbye, v.PingDue, v.DisconnectDue
	c.stats, c.farewell = v.Stats.Restore(), v.Farewell.restore(now)
	if err := c.restoreOutgoing(now, &v.Out); err != nil {
		return nil, err
	}
	if err := c.in.restore(now, c.epoch, &v.In); err != nil {
		return nil, err
	}
	return c, nil
}

func (v *savedHandshake) restore(now time.Time) handshake {
	h := handshake{nextAt: v.Next.Time(now), interval: v.Interval, asked: v.Asked, sent: v.Sent}
	for _, a := range v.Attempts {
		h.attempts = append(h.attempts, attempt{clock: a.Clock, at: a.At.Time(now)})
	}
	return h
}

func (v *savedThrottle) restore(now time.Time) throttle {
	return throttle{
		terms: throttleTerms{interval: v.Interval, acceleration: v.Acceleration, deceleration: v.Deceleration},
		value: v.Value, counter: v.Counter, began: v.Began.Time(now),
		lowest: v.Lowest, widest: v.Widest, lastRTT: v.LastRTT, lastWidth: v.LastWidth,
	}
}

// check holds a record to the bounds of a Conn.
func (v *savedConn) check() error {
	h, t := &v.Handshake, &v.Throttle
	switch {
	case v.State > closed:
		return saved.Fault("state", v.State)
	case len(v.Terms) != connectLen:
		return saved.Fault("length of the terms", len(v.Terms))
	case v.Secrets.ID > maxID || v.Secrets.Session > 15 || v.Peer > 0xfff || v.SessionIn > 3 || v.SessionOut > 3:
		return saved.Fault("peer ID or session", v.Secrets.ID)
	case v.MTU < minMTU || v.MTU > maxMTU:
		return saved.Fault("MTU", v.MTU)
	case v.Channels < 0 || v.Channels > maxChannels:
		return saved.Fault("number of channels", v.Channels)
	case v.Window < minWindow || v.Window > maxWindow:
		return saved.Fault("window", v.Window)
	case h.Sent < 0 || h.Asked < 0 || len(h.Attempts) != min(h.Sent, maxAttempts):
		return saved.Fault("number of attempts", len(h.Attempts))
	case h.Next != 0 && h.Interval <= 0:
		return saved.Fault("interval of attempts", h.Interval)
	case len(v.Groups.Seen) > 0 && len(v.Groups.Seen) != groupReach/64,
		len(v.Groups.Before) > 0 && len(v.Groups.Before) != groupReach/64:
		return saved.Fault("length of the group window", len(v.Groups.Seen))
	case len(v.Acks) > maxAcks:
		return saved.Fault("number of acknowledgements", len(v.Acks))
	case v.Pressure > codec.Refuse:
		return saved.Fault("pressure", v.Pressure)
	case int(v.Why) >= codec.ReasonCount:
		return saved.Fault("reason", v.Why)
	case t.Value > throttleScale || t.Counter >= throttleScale:
		return saved.Fault("throttle", t.Value)
	}
	for _, d := range [...]time.Duration{
		h.Interval, v.RTT.Mean, v.RTT.Deviation, t.Lowest, t.Widest, t.LastRTT, t.LastWidth,
	} {
		if err := saved.Duration("time", d); err != nil {
			return err
		}
	}
	return nil
}

var _ codec.Succeeder = (*Conn)(nil)

// A client may start again on the address and port of a session: after a crash, or because its game keeps its socket.
// The library's server makes a second peer. We answer such a Connect beside the session, and end the session when the
// new client has proved the address and the old one answers no ping.
const (
	maxHeirs     = 4                      // new clients that are answered beside a session; the oldest makes room
	heirPause    = 20 * time.Millisecond  // between two of them
	heirPatience = 100 * time.Millisecond // for an old client's answer, beside two round trips
)

// heirs are the new clients at the address of a session.
type heirs struct {
	list   []*Conn
	proved *Conn // nil: none has proved the address
}

// Successor implements codec.Succeeder.
func (c *Conn) Successor() codec.Conn {
	if c.state != closed || c.heirs.proved == nil {
		return nil
	}
	return c.heirs.proved
}

// invite answers the Connect of a new client. It is no sign of life of this one.
func (c *Conn) invite(now time.Time, asks *request) error {
	h := &c.heirs
	for _, n := range h.list {
		if n.terms.connectID == asks.connectID {
			n.handshake.asked++
			n.handshake.due = n.handshake.maySend()
			return codec.ErrDuplicate
		}
	}
	if last := len(h.list) - 1; last >= 0 && now.Sub(h.list[last].epoch) < heirPause {
		return codec.ErrLimit
	}
	if len(h.list) == maxHeirs {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	n := newConn(c.options, now, c.secretsBeside(now, &asks.connect)).accept(asks)
	n.Admit(now, 0)
	h.list = append(h.list, n)
	return codec.ErrUnexpected
}

// secretsBeside returns secrets that differ from those of this session and of other new clients.
func (c *Conn) secretsBeside(now time.Time, asks *connect) secrets {
	var b [32 + 12 + connectLen]byte
	copy(b[:], c.options.Seed[:])
	be.PutUint64(b[32:], uint64(now.UnixNano()))
	copy(b[40:], c.terms.connectID[:])
	asks.append(b[:44])
	s := secretsOf(sha256.Sum256(b[:]))
	for s.ID == c.secrets.ID || c.heir(s.ID) != nil {
		s.ID = (s.ID + 1) % (maxID + 1)
	}
	return s
}

// heir returns the new client that was given an ID, or nil.
func (c *Conn) heir(id uint16) *Conn {
	for _, n := range c.heirs.list {
		if n.secrets.ID == id {
			return n
		}
	}
	return nil
}

// hearHeir takes a datagram of a new client. It must begin with the acknowledgement of our VerifyConnect. The client
// repeats what follows.
func (c *Conn) hearHeir(now time.Time, n *Conn, h *header, d, rest []byte) error {
	if h.session != n.sessionIn || c.heirs.proved != nil {
		return codec.ErrUnexpected
	}
	n.in.recycle()
	rest, err := n.commandsOf(h, d, rest)
	if err != nil {
		return err
	}
	var cmd command
	if _, err := cmd.parse(rest); err != nil {
		return err
	}
	if err := n.receiveProof(now, &cmd); err != nil {
		return err
	}
	c.heirs = heirs{proved: n}
	patience := heirPatience + 2*c.rtt.Mean
	if c.state != connected || now.Sub(c.heard) > goodbyePatience+2*c.rtt.Mean || !c.farewell.heard.IsZero() {
		c.endByPeer(c.farewell.data)
		return nil
	}
	c.farewell = goodbye{heard: now, endAt: now.Add(patience), pingAt: now}
	return nil
}

// turnAway tells a new client that the old one is still here.
func (c *Conn) turnAway() {
	if n := c.heirs.proved; n != nil && c.farewell.heard.IsZero() {
		c.refusal, c.heirs.proved = n.appendDisconnectNow(nil), nil
	}
}

// advance repeats our answers, and forgets clients that have not come.
func (h *heirs) advance(now time.Time) {
	for len(h.list) > 0 && !now.Before(h.list[0].deadline) {
		h.list = h.list[1:]
	}
	for _, n := range h.list {
		n.handshake.advance(now, n)
	}
}

// next returns when advance has work; zero: never.
func (h *heirs) next() (at time.Time) {
	for _, n := range h.list {
		at = codec.Earliest(at, codec.Earliest(n.deadline, n.handshake.nextAt))
	}
	return at
}

// transmit appends an answer to a new client.
func (h *heirs) transmit(now time.Time, b []byte) []byte {
	for _, n := range h.list {
		if n.handshake.due {
			return n.appendHandshake(now, b)
		}
	}
	return b
}
