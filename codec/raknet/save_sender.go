package raknet

import (
	"slices"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
)

// savedSender is a sender with its messages that are not done. They are known by their place in the list.
type savedSender struct {
	*sender
	Messages []outgoing  `cbor:"3,keyasint,omitempty"`
	Control  []int       `cbor:"4,keyasint,omitempty"`
	Small    []int       `cbor:"5,keyasint,omitempty"`
	Bulk     []int       `cbor:"6,keyasint,omitempty"`
	Done     []int       `cbor:"7,keyasint,omitempty"` // dropped, and not reported yet
	Flight   savedFlight `cbor:"8,keyasint"`
	Queue    pathQueue   `cbor:"10,keyasint,omitempty"`
}

// savedFlight is a flight. The slots of parts keep their places, so that the order of later reports stays.
type savedFlight struct {
	*flight
	Datagrams []sentDatagram `cbor:"3,keyasint,omitempty"` // from base on
	Slots     []savedPart    `cbor:"4,keyasint,omitempty"`
	Resend    []partRef      `cbor:"6,keyasint,omitempty"`
	Repeats   []Seq24        `cbor:"7,keyasint,omitempty"`
	Unsure    []Seq24        `cbor:"13,keyasint,omitempty"` // datagrams
}

type savedPart struct {
	_       struct{} `cbor:",toarray"`
	Message int      // one more than its place; 0: the slot is free
	part
}

func (s *sender) save() savedSender {
	v := savedSender{sender: s, Queue: s.Congestion.queue}
	places := make(map[*outgoing]int)
	place := func(m *outgoing) int {
		at, known := places[m]
		if !known {
			at = len(v.Messages)
			places[m] = at
			v.Messages = append(v.Messages, *m)
		}
		return at
	}
	v.Flight = s.flight.save(place)
	v.Control, v.Small, v.Bulk = s.control.save(place), s.small.save(place), s.bulk.save(place)
	for _, o := range s.flight.done {
		v.Done = append(v.Done, place(o.message))
	}
	return v
}

func (q *queue) save(place func(*outgoing) int) (places []int) {
	for i := range q.size {
		places = append(places, place(*q.at(i)))
	}
	return places
}

// restore brings a fresh sender, whose MTU is set, to a saved state.
func (s *sender) restore(v *savedSender, o *Options) error {
	g := &s.Congestion
	switch {
	case len(s.Channels) > maxChannels:
		return saved.Fault("number of channels", len(s.Channels))
	case s.MTU > 0 && (g.Window < 1 || g.Window > maxSegment || g.Threshold < 1 || g.Threshold > maxSegment),
		g.InFlight < -maxSegment || g.InFlight > maxSegment, !(g.LossShare >= 0 && g.LossShare <= 1),
		g.Losses < 0 || g.Losses > maxSegment, g.Trips > mostTrips, g.ProbeRoom < -maxSegment || g.ProbeRoom > maxSegment:
		return saved.Fault("window", g.Window)
	case s.Narrowed != 0 && (!slices.Contains(probes[1:], s.Narrowed) || s.Narrowed >= s.MTU):
		return saved.Fault("MTU of the path", s.Narrowed)
	case s.pacer.Debt < 0 || s.pacer.Debt > maxSegment:
		return saved.Fault("debt of the pacer", s.pacer.Debt)
	case len(s.doubts) > maxOpenSplits || slices.ContainsFunc(s.doubts, func(d doubt) bool { return !s.fits(&d) }):
		return saved.Fault("doubts", len(s.doubts))
	}
	g.queue = v.Queue
	g.BeforeWindow, g.BeforeThreshold = max(0, min(g.BeforeWindow, maxSegment)), max(0, min(g.BeforeThreshold, maxSegment))
	s.Narrowing.Turns, s.Narrowing.Fails = min(s.Narrowing.Turns, narrowAfter), min(s.Narrowing.Fails, narrowFails)
	s.Unasked = min(s.Unasked, mostUnrequested)
	return s.restoreMessages(v, o)
}

// restoreMessages makes the messages, and puts each where it was: into a queue, into flight, or among those to report.
func (s *sender) restoreMessages(v *savedSender, o *Options) error {
	messages := make([]*outgoing, len(v.Messages))
	for i := range v.Messages {
		m, err := s.restoreMessage(&v.Messages[i], o)
		if err != nil {
			return err
		}
		messages[i] = m
		if m.Parts > 1 {
			s.openSplits++
			s.openIDs[m.SplitID%openSplitIDs/64] |= 1 << (m.SplitID % 64)
		}
		if !m.Control {
			s.bytes += len(m.Payload)
			s.count++
		}
	}
	where := make([]messagePlace, len(messages))
	if err := s.flight.restore(&v.Flight, messages, where); err != nil {
		return err
	}
	for i, places := range [...][]int{v.Control, v.Small, v.Bulk, v.Done} {
		for _, at := range places {
			if at < 0 || at >= len(messages) || where[at].queued || where[at].done {
				return saved.Fault("place of a message", at)
			}
			m := messages[at]
			if i == 3 {
				where[at].done = true
				s.flight.done = append(s.flight.done, outcome{message: m})
				continue
			}
			where[at].queued = true
			s.wait([...]*queue{&s.control, &s.small, &s.bulk}[i], m)
		}
	}
	for i, m := range messages {
		if !where[i].fits(m) {
			return saved.Fault("parts of a message", m.Parts)
		}
		m.InLine = m.InLine && where[i].queued // its channel counts no other message
	}
	return nil
}

// messagePlace says where a message is: parts in flight, and a queue or the list of reports.
type messagePlace struct {
	parts        uint32
	queued, done bool
}

// fits reports whether a message's own counts agree with its place. A message in two places would be freed twice.
func (p messagePlace) fits(m *outgoing) bool {
	switch {
	case p.done:
		return p.parts == 0
	case p.queued && m.Parts == 0:
		return p.parts == 0 && m.Sent == 0 && m.Settled == 0
	case p.queued:
		return m.Sent < m.Parts && p.parts == m.Sent-m.Settled
	}
	return p.parts > 0 && m.Sent == m.Parts && p.parts == m.Parts-m.Settled
}

// restoreMessage returns a message of a record in memory of its own.
func (s *sender) restoreMessage(v *outgoing, o *Options) (*outgoing, error) {
	switch {
	case len(v.Payload) == 0 || len(v.Payload) > max(o.MaxMessage, maxPassword+64):
		return nil, saved.Fault("length of a message", len(v.Payload))
	case v.Mode > codec.ReliableSequenced || v.Channel >= maxChannels || v.Pad > 7:
		return nil, saved.Fault("mode of a message", v.Mode)
	case v.Parts != 0 && (s.MTU == 0 || int(v.Parts) != s.partsOf(len(v.Payload)) || v.Parts > 1 && !v.Mode.IsReliable()):
		return nil, saved.Fault("number of parts", v.Parts)
	case v.Sent > v.Parts || v.Settled > v.Sent || !v.Again.within(v.Parts):
		return nil, saved.Fault("number of sent parts", v.Sent)
	}
	m := s.memory.record()
	*m = *v
	m.Payload, m.Pad = s.memory.copy(v.Payload), s.padOf(v.Pad)
	return m, nil
}

// save leaves out stale references: they name nothing any more.
func (f *flight) save(place func(*outgoing) int) savedFlight {
	v := savedFlight{flight: f}
	for n := f.Base; n != f.next; n = n.Add(1) {
		d := *f.at(n)
		d.parts = f.saveRefs(d.parts)
		v.Datagrams = append(v.Datagrams, d)
		if d.unsure {
			v.Unsure = append(v.Unsure, n)
		}
	}
	for i := range f.parts {
		var one savedPart
		if p := &f.parts[i]; p.message != nil {
			one = savedPart{Message: place(p.message) + 1, part: *p}
		}
		v.Slots = append(v.Slots, one)
	}
	v.Resend = f.saveRefs(f.resend[f.resentTo:])
	for _, n := range f.repeats {
		if !n.Before(f.Base) {
			v.Repeats = append(v.Repeats, n)
		}
	}
	return v
}

func (f *flight) saveRefs(refs []partRef) (list []partRef) {
	for _, r := range refs {
		if f.get(r) != nil {
			list = append(list, r)
		}
	}
	return list
}

// restore brings a fresh flight to a saved state, and counts each message's parts.
func (f *flight) restore(v *savedFlight, messages []*outgoing, where []messagePlace) error {
	switch {
	case len(v.Datagrams) > maxFlight:
		return saved.Fault("number of datagrams in flight", len(v.Datagrams))
	case f.Due.Sub(f.Base) < 0 || f.Due.Sub(f.Base) > len(v.Datagrams):
		return saved.Fault("oldest datagram that is due", f.Due)
	case len(v.Repeats) > maxFlight:
		return saved.Fault("number of repetitions", len(v.Repeats))
	}
	f.next = f.Base
	if err := f.restoreParts(v, messages, where); err != nil {
		return err
	}
	for i := range v.Datagrams {
		one := &v.Datagrams[i]
		d := f.open(one.at)
		refs, err := f.restoreRefs(d.parts, one.parts)
		if err != nil || one.size < 0 || one.state > settled || one.at < -maxSpan || one.at > maxSpan {
			return saved.Fault("datagram in flight", i)
		}
		*d, d.parts = *one, refs
		f.commit(int(one.size))
	}
	for i, n := range slices.Concat(v.Repeats, v.Unsure) {
		switch {
		case n.Before(f.Base) || !n.Before(f.next):
			return saved.Fault("number of an overdue or repeated datagram", n)
		case i < len(v.Repeats):
			f.queueRepeat(n)
		default:
			f.at(n).unsure = true
		}
	}
	var err error
	f.resend, err = f.restoreRefs(f.resend[:0], v.Resend)
	return err
}

func (f *flight) restoreParts(v *savedFlight, messages []*outgoing, where []messagePlace) error {
	free := 0
	f.parts = f.parts[:0]
	for i := range v.Slots {
		one := &v.Slots[i]
		p := one.part
		switch {
		case one.Message < 0 || one.Message > len(messages):
			return saved.Fault("message of a part", one.Message)
		case one.Message == 0:
			p = part{}
			free++
		default:
			p.message = messages[one.Message-1]
			where[one.Message-1].parts++
			if p.index >= p.message.Sent {
				return saved.Fault("index of a part", p.index)
			}
			if p.message.Mode.IsReliable() {
				f.unacked++
			}
		}
		f.parts = append(f.parts, p)
	}
	taken := make([]bool, len(f.parts))
	for _, slot := range f.free {
		if int(slot) >= len(f.parts) || f.parts[slot].message != nil || taken[slot] {
			return saved.Fault("free place of a part", slot)
		}
		taken[slot] = true
	}
	if len(f.free) != free {
		return saved.Fault("number of free places", len(f.free))
	}
	return nil
}

func (f *flight) restoreRefs(to []partRef, refs []partRef) ([]partRef, error) {
	for _, r := range refs {
		if int(r.Slot) >= len(f.parts) || f.get(r) == nil {
			return nil, saved.Fault("reference to a part", r.Slot)
		}
		to = append(to, r)
	}
	return to, nil
}
