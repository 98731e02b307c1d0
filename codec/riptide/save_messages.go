package riptide

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/prints"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

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
