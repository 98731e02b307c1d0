package riptide

import (
	"encoding/binary"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/prints"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const savedVersion = 1

var _ = record.Register[savedConn](savedVersion, names[:]...)

// savedConn is a Conn as a record. Its kind is the dialect's name. The options are not part of it.
type savedConn struct {
	record.Head
	Server    bool          `cbor:"3,keyasint,omitempty"`
	State     state         `cbor:"4,keyasint"`
	Tentative bool          `cbor:"5,keyasint,omitempty"`
	Busy      bool          `cbor:"6,keyasint,omitempty"`
	Client    uint16        `cbor:"7,keyasint,omitempty"`
	Heard     record.Moment `cbor:"8,keyasint,omitempty"`
	Tolerant  record.Moment `cbor:"9,keyasint,omitempty"`
	Doubt     savedDoubt    `cbor:"10,keyasint,omitempty"`
	Welcome   savedWelcome  `cbor:"11,keyasint,omitempty"`
	Ticker    savedTicker   `cbor:"12,keyasint,omitempty"`
	Window    savedWindow   `cbor:"13,keyasint"`
	Flight    savedFlight   `cbor:"14,keyasint"`
	Notifier  savedNotifier `cbor:"15,keyasint"`
	RTT       savedRTT      `cbor:"16,keyasint,omitempty"`
	Sends     savedSends    `cbor:"17,keyasint,omitempty"`
	Data      []byte        `cbor:"18,keyasint,omitempty"` // the outbox of messages that wait for the session
	Stats     saved.Stats   `cbor:"19,keyasint"`
	Mute      bool          `cbor:"20,keyasint,omitempty"`
	Reflected bool          `cbor:"21,keyasint,omitempty"`
}

type savedDoubt struct {
	Reason  codec.Reason  `cbor:"1,keyasint,omitempty"`
	Data    []byte        `cbor:"2,keyasint,omitempty"`
	Pad     uint8         `cbor:"3,keyasint,omitempty"`
	Since   record.Moment `cbor:"4,keyasint,omitempty"`
	Believe record.Moment `cbor:"5,keyasint,omitempty"`
	Probe   record.Moment `cbor:"6,keyasint,omitempty"`
}

type savedWelcome struct {
	Waiting bool          `cbor:"1,keyasint,omitempty"`
	Sends   uint8         `cbor:"2,keyasint,omitempty"`
	SentAt  record.Moment `cbor:"3,keyasint,omitempty"`
}

type savedTicker struct {
	Next     record.Moment `cbor:"1,keyasint,omitempty"`
	Connect  []byte        `cbor:"2,keyasint,omitempty"`
	Attempts int           `cbor:"3,keyasint,omitempty"`
	Ping     uint8         `cbor:"4,keyasint,omitempty"`
	PingAt   record.Moment `cbor:"5,keyasint,omitempty"`
	Patient  bool          `cbor:"6,keyasint,omitempty"`
	Full     bool          `cbor:"7,keyasint,omitempty"`
	Asks     bool          `cbor:"8,keyasint,omitempty"`
	Refusals uint8         `cbor:"9,keyasint,omitempty"`
	Owed     bool          `cbor:"10,keyasint,omitempty"`
}

type savedRTT struct {
	rtt
	Told time.Duration `cbor:"2,keyasint,omitempty"` // earlier releases tell it servers, and we do not read it
}

func (v *savedRTT) check() error {
	for _, d := range []time.Duration{v.Smooth, v.Far, v.Slowest[0], v.Slowest[1]} {
		if err := saved.Duration("round-trip time", d); err != nil {
			return err
		}
	}
	return nil
}

// savedSends has the latest results in the order of their places.
type savedSends struct {
	Sends []byte `cbor:"1,keyasint,omitempty"`
	Count int    `cbor:"2,keyasint,omitempty"`
	At    int    `cbor:"3,keyasint,omitempty"`
	Bad   int    `cbor:"4,keyasint,omitempty"`
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	t, w, d := &c.ticker, &c.welcome, &c.doubt
	v := savedConn{
		Head:   record.Head{Kind: names[c.options.Version], Version: savedVersion},
		Server: c.server, State: c.state, Tentative: c.tentative, Busy: c.busy, Client: c.client,
		Heard: record.MomentOf(now, c.heard), Tolerant: record.MomentOf(now, c.tolerantUntil),
		Doubt: savedDoubt{
			Reason: d.goodbye.Reason, Data: d.goodbye.Payload, Pad: d.goodbye.Pad,
			Since: record.MomentOf(now, d.since), Believe: record.MomentOf(now, d.believe),
			Probe: record.MomentOf(now, d.probeAt),
		},
		Welcome: savedWelcome{Waiting: w.waiting, Sends: w.sends, SentAt: record.MomentOf(now, w.sentAt)},
		Ticker: savedTicker{
			Next: record.MomentOf(now, t.next), Connect: t.connect, Attempts: t.attempts,
			Ping: t.ping, PingAt: record.MomentOf(now, t.pingAt),
			Patient: t.patient, Full: t.full, Asks: t.asks, Refusals: t.refusals, Owed: t.owed,
		},
		Window:   c.window.save(now),
		Flight:   c.flight.save(now),
		Notifier: c.notifier.save(now),
		RTT:      savedRTT{c.rtt, c.rtt.Smooth},
		Data:     c.data.log[c.data.read:],
		Stats:    saved.StatsOf(&c.stats),
		Mute:     c.mute, Reflected: c.reflected,
	}
	if q := &c.sends; q.count > 0 {
		v.Sends = savedSends{Sends: q.sends[:], Count: q.count, At: q.at, Bad: q.bad}
	}
	return record.Append(b, &v)
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	var v savedConn
	if err := saved.Read(b, names[p.options.Version], savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(&p.options); err != nil {
		return nil, err
	}
	t, w, d := &v.Ticker, &v.Welcome, &v.Doubt
	c := &Conn{
		options: &p.options, dialect: p.dialect,
		server: v.Server, state: v.State, tentative: v.Tentative, busy: v.Busy, client: v.Client,
		heard: v.Heard.Time(now), tolerantUntil: v.Tolerant.Time(now),
		doubt:   doubt{since: d.Since.Time(now), believe: d.Believe.Time(now), probeAt: d.Probe.Time(now)},
		welcome: welcome{waiting: w.Waiting, sends: w.Sends, sentAt: w.SentAt.Time(now)},
		ticker: ticker{
			next: t.Next.Time(now), connect: t.Connect, attempts: t.Attempts, ping: t.Ping, pingAt: t.PingAt.Time(now),
			patient: t.Patient, full: t.Full, asks: t.Asks, refusals: t.Refusals,
			owed: t.Owed,
		},
		notifier: v.Notifier.restore(now),
		rtt:      v.RTT.rtt,
		sends:    v.Sends.restore(),
		data:     outbox{log: v.Data},
		stats:    v.Stats.Restore(),
		mute:     v.Mute, reflected: v.Reflected,
	}
	if !c.doubt.believe.IsZero() {
		c.doubt.goodbye = codec.Event{Kind: codec.Disconnected, Reason: d.Reason}
		c.doubt.goodbye.Payload, c.doubt.goodbye.Pad = d.Data, d.Pad
	}
	var err error
	if c.window, err = v.Window.restore(now); err != nil {
		return nil, err
	}
	if c.flight, err = v.Flight.restore(now, p.options.maxDatagram); err != nil {
		return nil, err
	}
	return c, nil
}

// check holds a record to the bounds of a Conn.
func (v *savedConn) check(o *Options) error {
	switch {
	case v.State > closed:
		return saved.Fault("state", v.State)
	case int(v.Doubt.Reason) >= codec.ReasonCount || len(v.Doubt.Data) > o.maxDatagram || v.Doubt.Pad > 7:
		return saved.Fault("goodbye", v.Doubt)
	case len(v.Ticker.Connect) > o.maxDatagram || v.Ticker.Attempts < 0:
		return saved.Fault("number of attempts", v.Ticker.Attempts)
	case v.Server != (v.Ticker.Next == 0) && v.State != closed:
		return saved.Fault("ticker of a server", v.Server)
	case v.State == connecting && len(v.Ticker.Connect) == 0:
		return saved.Fault("Connect", nil)
	case len(v.Data) > o.MaxQueued+lengthSize*maxControl || !isLog(v.Data, o.maxDatagram):
		return saved.Fault("log of waiting datagrams", len(v.Data))
	}
	if err := v.RTT.check(); err != nil {
		return err
	}
	if err := v.Sends.check(); err != nil {
		return err
	}
	return v.Notifier.check()
}

// isLog reports whether b is the log of an outbox, with whole records of datagrams.
func isLog(b []byte, maxDatagram int) bool {
	for len(b) > 0 {
		if len(b) < lengthSize {
			return false
		}
		n := int(binary.LittleEndian.Uint16(b))
		if n == reference {
			n = lengthSize
		}
		if n == 0 || n > maxDatagram || lengthSize+n > len(b) {
			return false
		}
		b = b[lengthSize+n:]
	}
	return true
}

func (v *savedSends) check() error {
	if v.Count < 0 || v.Count > qualitySpan || v.At < 0 || v.At >= qualitySpan || v.Bad < 0 ||
		v.Count > 0 && len(v.Sends) != qualitySpan {
		return saved.Fault("measure of transmissions", *v)
	}
	return nil
}

func (v *savedSends) restore() sendQuality {
	q := sendQuality{count: v.Count, at: v.At, bad: v.Bad}
	if v.Count > 0 {
		copy(q.sends[:], v.Sends)
	}
	for _, n := range q.sends {
		q.sum += int(n)
	}
	return q
}

// savedWindow is a window. Bits are empty while no number is missing.
type savedWindow struct {
	Base   seq           `cbor:"1,keyasint"`
	Last   seq           `cbor:"2,keyasint"`
	First  uint8         `cbor:"3,keyasint,omitempty"`
	Bits   []uint64      `cbor:"4,keyasint,omitempty"`
	Stuck  record.Moment `cbor:"5,keyasint,omitempty"`
	Prints prints.Saved  `cbor:"6,keyasint"`
}

func (w *window) save(now time.Time) savedWindow {
	v := savedWindow{Base: w.base, Last: w.last, First: w.first, Prints: w.prints.Save()}
	v.Stuck = record.MomentOf(now, w.stuck)
	if w.hasHoles() {
		v.Bits = w.bits
	}
	return v
}

func (v *savedWindow) restore(now time.Time) (window, error) {
	w := window{base: v.Base, last: v.Last, first: v.First, stuck: v.Stuck.Time(now)}
	ahead := v.Last.minus(v.Base)
	switch {
	case v.First > 16:
		return w, saved.Fault("number of acknowledgement bits", v.First)
	case ahead < -1 || ahead >= windowSize:
		return w, saved.Fault("distance of the newest number", ahead)
	case w.hasHoles() && len(v.Bits) != windowSize/64 || !w.hasHoles() && len(v.Bits) > 0:
		return w, saved.Fault("length of the window", len(v.Bits))
	}
	if w.bits = v.Bits; w.hasHoles() && (w.isSet(w.base) || !w.isSet(w.last)) {
		return w, saved.Fault("oldest missing number", v.Base)
	}
	var err error
	w.prints, err = v.Prints.Restore(1 << 16)
	return w, err
}

// savedFlight is a flight. Sent messages are in the order of their last transmission, waiting ones in that of their
// numbers.
type savedFlight struct {
	Oldest  seq            `cbor:"1,keyasint"`
	Unsent  seq            `cbor:"2,keyasint"`
	Sent    []savedSent    `cbor:"3,keyasint,omitempty"`
	Waiting []savedWaiting `cbor:"4,keyasint,omitempty"`
	// Waited says how long each sent message has waited when it was sent last. Earlier releases have none.
	Waited []time.Duration `cbor:"5,keyasint,omitempty"`
}

type savedSent struct {
	_        struct{} `cbor:",toarray"`
	Number   seq
	Sends    uint8
	SentAt   record.Moment
	Receipt  codec.Receipt
	Datagram []byte
}

type savedWaiting struct {
	_        struct{} `cbor:",toarray"`
	Receipt  codec.Receipt
	Datagram []byte
}

func (f *flight) save(now time.Time) savedFlight {
	v := savedFlight{Oldest: f.oldest, Unsent: f.unsent}
	for i, s := 0, f.first; i < f.listed; i, s = i+1, f.at(s).succ {
		m := f.at(s)
		v.Sent = append(v.Sent, savedSent{
			Number: s, Sends: m.sends, SentAt: record.MomentOf(now, m.sentAt), Receipt: m.receipt, Datagram: m.datagram,
		})
		v.Waited = append(v.Waited, m.waited)
	}
	for s := f.unsent; s != f.next; s++ {
		v.Waiting = append(v.Waiting, savedWaiting{Receipt: f.at(s).receipt, Datagram: f.at(s).datagram})
	}
	return v
}

func (v *savedFlight) restore(now time.Time, maxDatagram int) (flight, error) {
	f := newFlight(v.Oldest)
	total := int(v.Unsent-v.Oldest) + len(v.Waiting)
	if total > maxWaiting {
		return f, saved.Fault("number of messages", total)
	}
	f.unsent = v.Unsent
	f.next = v.Unsent + seq(len(v.Waiting))
	for len(f.ring) < total {
		f.ring = make([]inFlight, max(16, 2*len(f.ring)))
	}
	for i, m := range v.Sent {
		if m.Number-v.Oldest >= v.Unsent-v.Oldest || f.at(m.Number).datagram != nil || m.Sends == 0 {
			return f, saved.Fault("number of a sent message", m.Number)
		}
		if len(m.Datagram) < 3 || len(m.Datagram) > maxDatagram {
			return f, saved.Fault("length of a sent message", len(m.Datagram))
		}
		*f.at(m.Number) = inFlight{datagram: f.spare.copyOf(m.Datagram), receipt: m.Receipt, sends: m.Sends - 1}
		f.sent(m.SentAt.Time(now), m.Number)
		if i < len(v.Waited) {
			f.at(m.Number).waited = v.Waited[i]
		}
		f.bytes += len(m.Datagram)
	}
	if f.oldest != f.unsent && f.at(f.oldest).datagram == nil {
		return f, saved.Fault("oldest message", v.Oldest)
	}
	for i, m := range v.Waiting {
		if len(m.Datagram) < 3 || len(m.Datagram) > maxDatagram {
			return f, saved.Fault("length of a waiting message", len(m.Datagram))
		}
		*f.at(v.Unsent + seq(i)) = inFlight{datagram: f.spare.copyOf(m.Datagram), receipt: m.Receipt}
		f.bytes += len(m.Datagram)
	}
	return f, nil
}

// copyOf returns a copy of b in a buffer that can be used again.
func (p *buffers) copyOf(b []byte) []byte { return append(p.take(len(b)), b...) }

// savedNotifier is a notifier. Fields 4, 5, 9 and 10 of earlier releases have no meaning
// any more.
type savedNotifier struct {
	Next     seq             `cbor:"1,keyasint"`
	Acked    seq             `cbor:"2,keyasint"`
	Last     seq             `cbor:"3,keyasint"`
	Reported seq             `cbor:"6,keyasint"`
	Arrivals []uint64        `cbor:"7,keyasint"`
	Receipts []notifyReceipt `cbor:"8,keyasint,omitempty"`
	Doorman  *savedDoorman   `cbor:"11,keyasint,omitempty"`
}

// savedDoorman is a doorman, with the strays that there are.
type savedDoorman struct {
	Said   [2]seq        `cbor:"1,keyasint"`
	SentBy [2]seq        `cbor:"2,keyasint"`
	SentAt record.Moment `cbor:"3,keyasint,omitempty"`
	Heard  record.Moment `cbor:"4,keyasint,omitempty"`
	Pace   time.Duration `cbor:"5,keyasint,omitempty"`
	Doubt  record.Moment `cbor:"6,keyasint,omitempty"`
	Strays []savedStray  `cbor:"7,keyasint,omitempty"`
}

type savedStray struct {
	_      struct{} `cbor:",toarray"`
	Number seq
	Run    uint8
	Since  record.Moment
}

func (d *doorman) save(now time.Time) *savedDoorman {
	if d == nil {
		return nil
	}
	v := savedDoorman{
		Said: d.said, SentBy: d.sentBy, SentAt: record.MomentOf(now, d.sentAt), Heard: record.MomentOf(now, d.heard),
		Pace: d.pace, Doubt: record.MomentOf(now, d.doubt),
	}
	for _, w := range d.strays {
		v.Strays = append(v.Strays, savedStray{Number: w.seq, Run: w.run, Since: record.MomentOf(now, w.since)})
	}
	return &v
}

func (v *savedDoorman) check() error {
	switch {
	case v == nil:
		return nil
	case len(v.Strays) > maxStrays:
		return saved.Fault("number of strays", len(v.Strays))
	}
	return saved.Duration("pace", v.Pace)
}

func (v *savedDoorman) restore(now time.Time) *doorman {
	if v == nil {
		return nil
	}
	d := doorman{
		said: v.Said, sentBy: v.SentBy, sentAt: v.SentAt.Time(now), heard: v.Heard.Time(now), pace: v.Pace,
		doubt: v.Doubt.Time(now),
	}
	for i, w := range v.Strays {
		d.strays[i] = stray{seq: w.Number, run: w.Run, since: w.Since.Time(now)}
	}
	return &d
}

func (n *notifier) save(now time.Time) savedNotifier {
	return savedNotifier{
		Next: n.next, Acked: n.acked, Last: n.last, Reported: n.reported, Arrivals: n.arrivals[:],
		Receipts: n.receipts[n.answered:], Doorman: n.doorman.save(now),
	}
}

// check holds a record to the bounds of a notifier. Between the last reported number and the newest lies room for the
// bits of a header, and the newest has arrived: reportable finds both.
func (v *savedNotifier) check() error {
	ahead := v.Last.minus(v.Reported)
	switch {
	case len(v.Arrivals) != notifyMemory/64:
		return saved.Fault("length of the notify memory", len(v.Arrivals))
	case ahead < 0 || ahead > notifyMemory-notifyReach:
		return saved.Fault("distance of the newest notify message", ahead)
	case len(v.Receipts) > maxNotifyReceipts:
		return saved.Fault("number of notify receipts", len(v.Receipts))
	}
	if n := v.restore(time.Time{}); !n.arrived(n.last) {
		return saved.Fault("newest notify message", v.Last)
	}
	return v.Doorman.check()
}

func (v *savedNotifier) restore(now time.Time) notifier {
	n := notifier{next: v.Next, acked: v.Acked, last: v.Last, reported: v.Reported, receipts: v.Receipts}
	if v.Doorman.check() == nil {
		n.doorman = v.Doorman.restore(now)
	}
	copy(n.arrivals[:], v.Arrivals)
	return n
}
