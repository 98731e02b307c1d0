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
	*Conn
	Doubt    savedDoubt    `cbor:"10,keyasint,omitempty"`
	Window   savedWindow   `cbor:"13,keyasint"`
	Flight   savedFlight   `cbor:"14,keyasint"`
	Notifier savedNotifier `cbor:"15,keyasint"`
	RTT      savedRTT      `cbor:"16,keyasint,omitempty"`
	Data     []byte        `cbor:"18,keyasint,omitempty"` // the outbox of messages that wait for the session
}

type savedDoubt struct {
	*doubt
	Reason codec.Reason `cbor:"1,keyasint,omitempty"`
	Data   []byte       `cbor:"2,keyasint,omitempty"`
	Pad    uint8        `cbor:"3,keyasint,omitempty"`
}

type savedRTT struct {
	rtt
	Told time.Duration `cbor:"2,keyasint,omitempty"` // earlier releases tell it servers, and we do not read it
}

// savedWindow is a window. Bits are empty while no number is missing.
type savedWindow struct {
	*window
	Bits   []uint64     `cbor:"4,keyasint,omitempty"`
	Prints prints.Saved `cbor:"6,keyasint"`
}

// savedNotifier is a notifier. Fields 4, 5, 9 and 10 of earlier releases have no meaning
// any more.
type savedNotifier struct {
	*notifier
	Receipts []notifyReceipt `cbor:"8,keyasint,omitempty"`
}

// asSaved returns the record of a Conn, without what the Conn has in another form.
func (c *Conn) asSaved() savedConn {
	return savedConn{
		Conn: c, Doubt: savedDoubt{doubt: &c.doubt}, Window: savedWindow{window: &c.window},
		Notifier: savedNotifier{notifier: &c.notifier},
	}
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	v, gone := c.asSaved(), &c.doubt.goodbye
	v.Head = record.Head{Kind: names[c.options.Version], Version: savedVersion}
	v.Doubt.Reason, v.Doubt.Data, v.Doubt.Pad = gone.Reason, gone.Payload, gone.Pad
	v.Window.Prints = c.window.prints.Save()
	if c.window.hasHoles() {
		v.Window.Bits = c.window.bits
	}
	v.Flight = c.flight.save()
	v.Notifier.Receipts = c.notifier.receipts[c.notifier.answered:]
	v.RTT = savedRTT{c.rtt, c.rtt.Smooth}
	v.Data = c.data.log[c.data.read:]
	return record.AppendAt(now, b, &v)
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	c := &Conn{options: &p.options, dialect: p.dialect}
	v := c.asSaved()
	if err := saved.ReadAt(now, b, names[p.options.Version], savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(&p.options); err != nil {
		return nil, err
	}
	for _, n := range c.sends.sends {
		c.sends.sum += int(n)
	}
	if d := &v.Doubt; !d.believe.IsZero() {
		d.goodbye = codec.Event{Kind: codec.Disconnected, Reason: d.Reason}
		d.goodbye.Payload, d.goodbye.Pad = d.Data, d.Pad
	}
	c.data.log, c.notifier.receipts, c.rtt = v.Data, v.Notifier.Receipts, v.RTT.rtt
	if err := v.Window.restore(); err != nil {
		return nil, err
	}
	var err error
	if c.flight, err = v.Flight.restore(p.options.maxDatagram); err != nil {
		return nil, err
	}
	return c, nil
}

// check holds a record to the bounds of a Conn.
func (v *savedConn) check(o *Options) error {
	t, q := &v.ticker, &v.sends
	switch {
	case v.state > closed:
		return saved.Fault("state", v.state)
	case int(v.Doubt.Reason) >= codec.ReasonCount || len(v.Doubt.Data) > o.maxDatagram || v.Doubt.Pad > 7:
		return saved.Fault("goodbye", v.Doubt.Reason)
	case len(t.connect) > o.maxDatagram || t.attempts < 0:
		return saved.Fault("number of attempts", t.attempts)
	case v.server != t.next.IsZero() && v.state != closed:
		return saved.Fault("ticker of a server", v.server)
	case v.state == connecting && len(t.connect) == 0:
		return saved.Fault("Connect", nil)
	case len(v.Data) > o.MaxQueued+lengthSize*maxControl || !isLog(v.Data, o.maxDatagram):
		return saved.Fault("log of waiting datagrams", len(v.Data))
	case q.count < 0 || q.count > qualitySpan || q.at < 0 || q.at >= qualitySpan || q.bad < 0:
		return saved.Fault("measure of transmissions", q.count)
	}
	for _, d := range []time.Duration{v.RTT.Smooth, v.RTT.Far, v.RTT.Slowest[0], v.RTT.Slowest[1]} {
		if err := saved.Duration("round-trip time", d); err != nil {
			return err
		}
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

func (v *savedWindow) restore() (err error) {
	w := v.window
	ahead := w.last.minus(w.base)
	switch {
	case w.first > 16:
		return saved.Fault("number of acknowledgement bits", w.first)
	case ahead < -1 || ahead >= windowSize:
		return saved.Fault("distance of the newest number", ahead)
	case w.hasHoles() && len(v.Bits) != windowSize/64 || !w.hasHoles() && len(v.Bits) > 0:
		return saved.Fault("length of the window", len(v.Bits))
	}
	if w.hasHoles() {
		if w.bits = v.Bits; w.isSet(w.base) || !w.isSet(w.last) {
			return saved.Fault("oldest missing number", w.base)
		}
	}
	w.prints, err = v.Prints.Restore(1 << 16)
	return err
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
	SentAt   time.Time
	Receipt  codec.Receipt
	Datagram []byte
}

type savedWaiting struct {
	_        struct{} `cbor:",toarray"`
	Receipt  codec.Receipt
	Datagram []byte
}

func (f *flight) save() savedFlight {
	v := savedFlight{Oldest: f.oldest, Unsent: f.unsent}
	for i, s := 0, f.first; i < f.listed; i, s = i+1, f.at(s).succ {
		m := f.at(s)
		v.Sent = append(v.Sent, savedSent{
			Number: s, Sends: m.sends, SentAt: m.sentAt, Receipt: m.receipt, Datagram: m.datagram,
		})
		v.Waited = append(v.Waited, m.waited)
	}
	for s := f.unsent; s != f.next; s++ {
		v.Waiting = append(v.Waiting, savedWaiting{Receipt: f.at(s).receipt, Datagram: f.at(s).datagram})
	}
	return v
}

func (v *savedFlight) restore(maxDatagram int) (flight, error) {
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
		f.sent(m.SentAt, m.Number)
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

// check holds a record to the bounds of a notifier. Between the last reported number and the newest lies room for the
// bits of a header, and the newest has arrived: reportable finds both.
func (v *savedNotifier) check() error {
	ahead := v.last.minus(v.reported)
	switch {
	case ahead < 0 || ahead > notifyMemory-notifyReach:
		return saved.Fault("distance of the newest notify message", ahead)
	case len(v.Receipts) > maxNotifyReceipts:
		return saved.Fault("number of notify receipts", len(v.Receipts))
	case !v.arrived(v.last):
		return saved.Fault("newest notify message", v.last)
	case v.doorman != nil:
		return saved.Duration("pace", v.doorman.pace)
	}
	return nil
}
