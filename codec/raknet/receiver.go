package raknet

import (
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
)

var (
	errDatagramSeen   = fmt.Errorf("raknet: datagram arrived before: %w", codec.ErrDuplicate)
	errDatagramWindow = fmt.Errorf("raknet: datagram number: %w", codec.ErrWindow)
	errReliableWindow = fmt.Errorf("raknet: reliable message number: %w", codec.ErrWindow)
	errOrderWindow    = fmt.Errorf("raknet: ordering number: %w", codec.ErrWindow)
	errHeldRoom       = fmt.Errorf("raknet: no room to hold an early message: %w", codec.ErrLimit)
	errSplitRoom      = fmt.Errorf("raknet: no room for another split message: %w", codec.ErrLimit)
	errSplitTooLarge  = fmt.Errorf("raknet: split message larger than max_message allows: %w", codec.ErrLimit)
)

// receiver is the receiving half of a connection. It unpacks datagrams, joins split messages, and puts messages in
// order. If it has no room, it refuses a datagram. A refused datagram is not acknowledged, so the peer sends its
// reliable messages again (docs/protocols/raknet/recovery.md#recovery-and-congestion).
type receiver struct {
	*receiving
	receiverState
	datagrams  datagramWindow `record:"inline"`
	strays     strays         `record:"inline"`
	anchor     anchor
	reliable   reliableWindow `record:"inline"`
	channels   channels       `record:"inline"`
	heldBudget int            // bytes that may wait in channels
	splits     reassembly     `record:"inline"`
	memory     *buffers
	giant      giant `record:"inline"`
	scope      int   // how far ahead reliable messages may be, if only those count; else everything
	loose      loose
	fresh      uint64 // messages taken
	ackDelay   time.Duration
}

// receiverState is the part of a receiver that a record has as it is.
type receiverState struct {
	HeardAt  time.Duration `cbor:"6,keyasint,omitempty"`  // when a datagram of the window came
	Dropped  uint64        `cbor:"17,keyasint,omitempty"` // as in codec.Stats
	Patience time.Duration `cbor:"18,keyasint,omitempty"` // how long the answer to a NACK may take
}

// everything is the scope of a datagram whose number is in order.
const everything = -1

// receiving is the part of a receiver that is needed only while data arrives.
type receiving struct {
	acks   ackQueue
	recent ackQueue       // numbers that the last ACK held for the first time, at recentAt
	repeat ackQueue       // its memory alternates with that of recent
	nacks  ackQueue       // due at once
	room   [3][2]ackRange // memory of acks, recent and repeat, as long as they are short
	holes  holes          `record:"inline"`

	ackTimes
}

// ackTimes are the times of acknowledgements, as a record has them.
type ackTimes struct {
	AcksSince      time.Duration `cbor:"24,keyasint,omitempty"` // when the first of acks arrived, and
	AcksAt         time.Duration `cbor:"25,keyasint,omitempty"` // when they are due; valid while there are some
	AcksWithDataAt time.Duration `cbor:"26,keyasint,omitempty"` // from when on they may travel with data
	RecentAt       time.Duration `cbor:"27,keyasint,omitempty"`
}

// isIdle reports whether no acknowledgement and no request waits.
func (r *receiving) isIdle() bool {
	return r.acks.count == 0 && r.nacks.count == 0 && len(r.holes.list) == 0
}

// take takes a data datagram; what came of it is in memory.ready. Parts may count even if there is an error. The
// number of a datagram shows which ones are missing, and which unreliable messages have come before. It is no reason to
// drop a reliable message, since a forged datagram may have used it.
func (r *receiver) take(now time.Duration, d *datagram) error {
	r.channels.now = now
	r.loose = loose{number: d.number, body: d.body, near: r.anchor.holds(d.number)}
	r.anchor.hear(now, d.number)
	err := r.takeNumbered(now, d)
	r.loose.body = nil
	return err
}

func (r *receiver) takeNumbered(now time.Duration, d *datagram) error {
	judged, wasMissing := r.datagrams.judge(d.number), r.holes.fill(d.number)
	if judged == refused && !wasMissing {
		return r.takeStray(now, d)
	}
	if judged == stale {
		r.acknowledge(now, d) // our acknowledgement was lost, or the path made two of one
		return r.takeAgain(now, d, errDatagramSeen, maxReliableSpan)
	}
	if judged == fresh {
		r.note(now, d.number)
	}
	r.HeardAt = now
	r.acknowledge(now, d)
	r.scope = everything
	refusal, err := r.takeCapsules(now, d.body)
	r.holes.close(d.number, r.reliable.next)
	if refusal != nil {
		r.Dropped++
		if judged == fresh {
			r.datagrams.clear(d.number)
		}
		r.acks.remove(d.number)
		r.openHole(now, d.number, 1)
		return refusal
	}
	return err
}

// takeStray takes a datagram whose number is far from the others'.
func (r *receiver) takeStray(now time.Duration, d *datagram) error {
	due := r.reliable.next
	if r.strays.add(now, r.HeardAt, d.number) {
		r.datagrams.move(d.number)
		r.anchor.move(now, d.number)
		return r.takeMoved(now, d)
	}
	err := r.takeAgain(now, d, errDatagramWindow, strayAhead)
	if err == nil {
		r.acknowledge(now, d)
		if r.reliable.next != due && r.reliable.base == r.reliable.next { // only the peer knows the number that is due
			r.datagrams.move(d.number)
			r.anchor.move(now, d.number)
			r.HeardAt = now
		}
	}
	return err
}

// takeMoved takes the datagram to which the window has moved.
func (r *receiver) takeMoved(now time.Duration, d *datagram) error {
	r.HeardAt = now
	r.acknowledge(now, d)
	r.scope = everything
	refusal, err := r.takeCapsules(now, d.body)
	if refusal != nil {
		r.Dropped++
		r.acks.remove(d.number)
		return refusal
	}
	return err
}

// takeAgain takes only those reliable messages of a datagram that have not come, as far as they are less than ahead of
// the oldest that is missing. It returns none if there is no such message.
func (r *receiver) takeAgain(now time.Duration, d *datagram, none error, ahead int) error {
	r.scope = ahead
	before := r.fresh
	refusal, err := r.takeCapsules(now, d.body)
	r.scope = everything
	switch {
	case refusal != nil:
		r.Dropped++
		r.acks.remove(d.number)
		return refusal
	case r.fresh == before:
		r.Dropped++
		return none
	}
	return err
}

// note records an arrived number, and requests the missing ones before it.
func (r *receiver) note(now time.Duration, n Seq24) {
	last, missing := r.datagrams.add(n)
	r.nacks.addUpTo(last, missing)
	r.nacks.remove(n)
	if missing > 0 {
		r.holes.fill(last.Add(1 - missing)) // numbers that expect has recorded
		r.openHole(now, last, missing)
	}
}

// postpone records that a fresh datagram has come for which there is no room. More may follow than the window has.
func (r *receiver) postpone(now time.Duration, n Seq24) {
	r.note(now, n)
	r.datagrams.clear(n)
	list := r.holes.list
	if i := len(list) - 1; i >= 0 && list[i].Last.Add(1) == n && list[i].Asked == 0 &&
		n.Sub(list[i].First) < maxMissing {
		list[i].Last, list[i].ReliableEnd, list[i].Closed = n, r.reliable.next, false
		return
	}
	r.openHole(now, n, 1)
}

// takeCapsules takes a datagram's capsules, up to an invalid one. A refusal says that the datagram must not be
// acknowledged. Behind a refused message the due one counts, since the others may wait for it. But a part of a message
// that is too large ends sessions, and a forger could guess many numbers for it.
func (r *receiver) takeCapsules(now time.Duration, b []byte) (refusal, err error) {
	for !isPadding(b) && err == nil {
		var c capsule
		if b, err = c.parse(b); err != nil {
			break
		}
		if refusal == nil {
			refusal, err = r.takeCapsule(now, &c)
		} else if r.scope == everything && r.isDue(&c) && (!c.split || !r.splits.neverFits(&c)) {
			_, err = r.takeCapsule(now, &c)
		}
	}
	if err != nil {
		r.Dropped++
	}
	return refusal, err
}

func (r *receiver) takeCapsule(now time.Duration, c *capsule) (refusal, err error) {
	switch {
	case c.mode.IsReliable():
		c.print = r.reliable.prints.Of(c.payload, uint64(c.order)<<40|uint64(c.splitIndex)<<16|uint64(c.splitID))
		switch r.reliable.judge(now, c.reliable, c.print) {
		case stale:
			r.Dropped++
			return nil, nil
		case refused:
			return errReliableWindow, nil
		}
		if r.scope != everything && c.reliable.Sub(r.reliable.base) >= r.scope {
			return errDatagramWindow, nil
		}
		r.fresh++
	case !r.takesLoose():
		return nil, nil // it came before, or is not known to be the peer's
	}
	if hasChannel(c.mode) && !r.isDue(c) && r.channels.isFar(c.channel, c.order) {
		return errOrderWindow, nil
	}
	m := inbound{
		Payload: c.payload, Pad: c.pad, Mode: c.mode, Channel: c.channel, Order: c.order, Sequence: c.sequence,
	}
	if c.split {
		return r.takePart(now, c, m)
	}
	v := r.judgeOrder(&m)
	if v == early && !r.mayHold(len(c.payload)) {
		if !c.mode.IsReliable() {
			v = stale
		} else if v = r.judgeJammed(now, c, &m); v == early && !r.mayHold(len(c.payload)) {
			return errHeldRoom, nil
		}
	}
	r.arrived(c)
	r.place(now, m, v)
	return nil, nil
}

// isDue reports whether a reliable message is the oldest that has not arrived. No peer goes far beyond it.
func (r *receiver) isDue(c *capsule) bool {
	return c.mode.IsReliable() && c.reliable == r.reliable.base
}

// jamPatience is how long the due message may lack room while its channel stands still. Stock RakNet sends a lost
// message again after 2 s at the latest.
const jamPatience = 5 * time.Second

// judgeJammed judges an early message for which there is no room. If it is due, the peer is stuck until there is some.
// So the channels that stand still go on without what they miss.
func (r *receiver) judgeJammed(now time.Duration, c *capsule, m *inbound) verdict {
	if r.isDue(c) {
		r.skipMissing(now - jamPatience)
	}
	return r.judgeOrder(m)
}

// takePart takes one part of a split message; m is the message without its payload.
func (r *receiver) takePart(now time.Duration, c *capsule, m inbound) (refusal, err error) {
	switch v, err := r.splits.judge(c); {
	case err != nil:
		return nil, err
	case v == stale:
		r.Dropped++
		r.arrived(c)
		return nil, nil
	case v == refused && r.splits.neverFits(c):
		if r.isDue(c) {
			r.giant.GiantSightings = min(r.giant.GiantSightings+1, giantSightings)
		}
		return errSplitTooLarge, nil
	case v == refused:
		return errSplitRoom, nil
	}
	if r.splits.find(c) == nil && r.judgeOrder(&m) == early && !r.mayHold(0) &&
		r.judgeJammed(now, c, &m) == early && !r.mayHold(0) {
		return errHeldRoom, nil
	}
	r.arrived(c)
	a := r.splits.add(now, c)
	if a == nil {
		return nil, nil
	}
	r.AcksAt = now // a peer may hold its next message back until all parts of this one are acknowledged
	m.Payload, m.Pad, m.owned = r.splits.join(a, false), a.pad, true
	r.place(now, m, r.judgeOrder(&m))
	if a.newer != nil {
		m.Payload = r.splits.join(a, true)
		r.place(now, m, r.judgeOrder(&m))
	}
	r.splits.forget(a)
	return nil, nil
}

// place delivers a message and the messages that waited for it, or holds it, or drops it.
func (r *receiver) place(now time.Duration, m inbound, v verdict) {
	switch v {
	case early:
		if !m.owned {
			m.Payload, m.owned = r.memory.copy(m.Payload), true
		}
		r.channels.hold(now, m)
		return
	case stale:
		r.placeLate(m)
		return
	}
	r.passOn(m)
	if !hasChannel(m.Mode) {
		return
	}
	r.channels.pass(&m)
	ch := &r.channels.list[m.Channel]
	if ch.StillAt = now; len(ch.Waiting) > 0 {
		r.releaseHeld(m.Channel)
	}
}

// releaseHeld passes on the waiting messages of a channel whose turn has come.
func (r *receiver) releaseHeld(channel uint8) {
	for m, v, ok := r.channels.release(channel); ok; m, v, ok = r.channels.release(channel) {
		if v == stale {
			r.placeLate(m)
			continue
		}
		r.passOn(m)
		r.channels.pass(&m)
	}
}

// passOn delivers a message. It remembers a large ordered one: a peer may send it again as other parts (Conn.narrow).
func (r *receiver) passOn(m inbound) {
	r.memory.ready = append(r.memory.ready, m)
	if isOrdered(m.Mode) && len(m.Payload) > partSizeAt(probes[len(probes)-1]) {
		r.channels.at(m.Channel).remember(r.printOf(&m))
	}
}

// printOf returns the print of an ordered message with its place.
func (r *receiver) printOf(m *inbound) uint32 {
	return r.reliable.prints.Of(m.Payload, uint64(m.Order))
}

// placeLate drops a sequenced message that another has overtaken, and an ordered one that has been passed on. Another
// ordered message is passed on: its reliable number is new, so a forged message has taken its place.
func (r *receiver) placeLate(m inbound) {
	if isOrdered(m.Mode) && !slices.Contains(r.channels.at(m.Channel).Passed, r.printOf(&m)) {
		r.passOn(m)
		return
	}
	r.channels.overtake(&m)
	r.Dropped++
	if m.owned {
		r.memory.put(m.Payload)
	}
}

func (r *receiver) judgeOrder(m *inbound) verdict {
	if !hasChannel(m.Mode) {
		return fresh
	}
	return r.channels.judge(m)
}

func (r *receiver) mayHold(size int) bool {
	return r.channels.held()+placeCost+size <= r.heldBudget
}

func (r *receiver) arrived(c *capsule) {
	if c.mode.IsReliable() {
		r.reliable.add(r.channels.now, c.reliable, c.print)
	}
}

// held returns the memory in bytes of unfinished and waiting messages.
func (r *receiver) held() int { return r.splits.held + r.channels.held() }

// expire gives up messages that nothing has completed since the given time: a part that is missing for so long will not
// come. A live peer repeats it until the connection is lost. Messages behind a missing one are passed on.
func (r *receiver) expire(since time.Duration) {
	r.Dropped += uint64(r.splits.expire(since))
	r.skipMissing(since)
}

// skipMissing passes on the messages of the channels that have stood still since the given time.
func (r *receiver) skipMissing(since time.Duration) {
	for number := range r.channels.list {
		for m, alone, ok := r.channels.skip(uint8(number), since); ok; m, alone, ok = r.channels.skip(uint8(number), since) {
			r.Dropped++
			if alone {
				r.placeLate(m)
				continue
			}
			r.releaseHeld(uint8(number))
		}
	}
}

// release forgets the numbers for repetition, and frees unused memory.
func (r *receiver) release() {
	r.recent.clear()
	r.repeat.clear()
	r.holes.list = r.holes.list[:0]
	r.AcksWithDataAt = 0
	r.reliable.release()
}
