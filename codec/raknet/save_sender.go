package raknet

import (
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
)

// savedSender is a sender with its messages that are not done. They are known by their place in the list.
type savedSender struct {
	MTU        int             `cbor:"1,keyasint,omitempty"`
	BulkTurn   bool            `cbor:"2,keyasint,omitempty"`
	Messages   []savedOutgoing `cbor:"3,keyasint,omitempty"`
	Control    []int           `cbor:"4,keyasint,omitempty"`
	Small      []int           `cbor:"5,keyasint,omitempty"`
	Bulk       []int           `cbor:"6,keyasint,omitempty"`
	Done       []int           `cbor:"7,keyasint,omitempty"` // dropped, and not reported yet
	Flight     savedFlight     `cbor:"8,keyasint"`
	Congestion savedCongestion `cbor:"9,keyasint"`
	Queue      savedPathQueue  `cbor:"10,keyasint,omitempty"`
	Debt       int64           `cbor:"11,keyasint,omitempty"`
	PacerAt    time.Duration   `cbor:"12,keyasint,omitempty"`
	WakeAt     time.Duration   `cbor:"13,keyasint,omitempty"`
	AckedAt    time.Duration   `cbor:"14,keyasint,omitempty"`
	AckedSent  time.Duration   `cbor:"15,keyasint,omitempty"`
	RTT        savedRTT        `cbor:"16,keyasint,omitempty"`
	Channels   []savedNumbers  `cbor:"17,keyasint,omitempty"`
	SplitID    uint16          `cbor:"18,keyasint,omitempty"`
	ReliableAt time.Duration   `cbor:"19,keyasint,omitempty"`
	Resent     uint64          `cbor:"20,keyasint,omitempty"`
	Lost       uint64          `cbor:"21,keyasint,omitempty"`
	Requests   bool            `cbor:"22,keyasint,omitempty"`
	Unasked    uint8           `cbor:"23,keyasint,omitempty"` // overdue datagrams that were not requested
	Narrowed   int             `cbor:"24,keyasint,omitempty"`
	Narrowing  savedNarrowing  `cbor:"25,keyasint,omitempty"`
	Forgetful  bool            `cbor:"26,keyasint,omitempty"`
	Doubts     []doubt         `cbor:"27,keyasint,omitempty"`
}

type savedOutgoing struct {
	Payload  []byte        `cbor:"1,keyasint"`
	Pad      uint8         `cbor:"2,keyasint,omitempty"`
	Mode     codec.Mode    `cbor:"3,keyasint"`
	Channel  uint8         `cbor:"4,keyasint,omitempty"`
	Receipt  codec.Receipt `cbor:"5,keyasint,omitempty"`
	QueuedAt time.Duration `cbor:"6,keyasint,omitempty"`
	Control  bool          `cbor:"7,keyasint,omitempty"`
	InLine   bool          `cbor:"8,keyasint,omitempty"`
	Order    Seq24         `cbor:"9,keyasint,omitempty"`
	Sequence Seq24         `cbor:"10,keyasint,omitempty"`
	SplitID  uint16        `cbor:"11,keyasint,omitempty"`
	Parts    uint32        `cbor:"12,keyasint,omitempty"`
	Sent     uint32        `cbor:"13,keyasint,omitempty"`
	Settled  uint32        `cbor:"14,keyasint,omitempty"`
	Numbered bool          `cbor:"15,keyasint,omitempty"`
	Again    partSet       `cbor:"16,keyasint,omitzero"`
}

type savedNarrowing struct {
	Turns  uint8         `cbor:"1,keyasint,omitempty"`
	Lost   bool          `cbor:"2,keyasint,omitempty"`
	LostAt time.Duration `cbor:"3,keyasint,omitempty"`
	Until  time.Duration `cbor:"4,keyasint,omitempty"`
	Fails  uint8         `cbor:"5,keyasint,omitempty"`
}

// savedFlight is a flight. The slots of parts keep their places, so that the order of later reports stays.
type savedFlight struct {
	Base       Seq24           `cbor:"1,keyasint"`
	Due        Seq24           `cbor:"2,keyasint"`
	Datagrams  []savedDatagram `cbor:"3,keyasint,omitempty"` // from base on
	Slots      []savedPart     `cbor:"4,keyasint,omitempty"`
	Free       []uint32        `cbor:"5,keyasint,omitempty"`
	Resend     []savedPartRef  `cbor:"6,keyasint,omitempty"`
	Repeats    []Seq24         `cbor:"7,keyasint,omitempty"`
	NextPart   uint32          `cbor:"8,keyasint,omitempty"`
	Reliable   Seq24           `cbor:"9,keyasint,omitempty"`
	Oldest     Seq24           `cbor:"10,keyasint,omitempty"`
	OldestGone bool            `cbor:"11,keyasint,omitempty"`
	Literal    bool            `cbor:"12,keyasint,omitempty"`
	Unsure     []Seq24         `cbor:"13,keyasint,omitempty"` // datagrams
}

type savedDatagram struct {
	_     struct{} `cbor:",toarray"`
	At    time.Duration
	Size  int32
	State datagramState
	Again bool
	Parts []savedPartRef
}

type savedPartRef struct {
	_        struct{} `cbor:",toarray"`
	Slot, ID uint32
}

type savedPart struct {
	_        struct{} `cbor:",toarray"`
	Message  int      // one more than its place; 0: the slot is free
	Index    uint32
	Reliable Seq24
	ID       uint32
	Resent   bool
	Waiting  bool
}

type savedCongestion struct {
	Window          int     `cbor:"1,keyasint,omitempty"`
	Threshold       int     `cbor:"2,keyasint,omitempty"`
	InFlight        int     `cbor:"3,keyasint,omitempty"`
	Limiting        bool    `cbor:"4,keyasint,omitempty"`
	Recovered       Seq24   `cbor:"5,keyasint,omitempty"`
	Reduced         bool    `cbor:"6,keyasint,omitempty"`
	LossShare       float64 `cbor:"7,keyasint,omitempty"`
	LossesFrom      Seq24   `cbor:"8,keyasint,omitempty"`
	Newest          Seq24   `cbor:"9,keyasint,omitempty"`
	Losses          int32   `cbor:"10,keyasint,omitempty"`
	Heavy           bool    `cbor:"11,keyasint,omitempty"`
	Trips           uint8   `cbor:"12,keyasint,omitempty"`
	Probing         bool    `cbor:"13,keyasint,omitempty"`
	Probed          Seq24   `cbor:"14,keyasint,omitempty"`
	ProbeRoom       int32   `cbor:"15,keyasint,omitempty"`
	BeforeWindow    int     `cbor:"16,keyasint,omitempty"`
	BeforeThreshold int     `cbor:"17,keyasint,omitempty"`
}

type savedPathQueue struct {
	Least    time.Duration `cbor:"1,keyasint,omitempty"`
	Before   time.Duration `cbor:"2,keyasint,omitempty"`
	Since    time.Duration `cbor:"3,keyasint,omitempty"`
	Round    time.Duration `cbor:"4,keyasint,omitempty"`
	RoundEnd Seq24         `cbor:"5,keyasint,omitempty"`
	Standing bool          `cbor:"6,keyasint,omitempty"`
	Lagging  bool          `cbor:"7,keyasint,omitempty"`
	Doubts   uint8         `cbor:"8,keyasint,omitempty"`
	Pinged   time.Duration `cbor:"9,keyasint,omitempty"`
	PingTrip time.Duration `cbor:"10,keyasint,omitempty"`
	Late     bool          `cbor:"11,keyasint,omitempty"`
}

type savedNumbers struct {
	_               struct{} `cbor:",toarray"`
	Order, Sequence Seq24
}

func (s *sender) save() savedSender {
	g, q := &s.congestion, &s.congestion.queue
	v := savedSender{
		MTU: s.mtu, BulkTurn: s.bulkTurn, Debt: s.pacer.debt, PacerAt: s.pacer.at, WakeAt: s.pacer.wakeAt,
		AckedAt: s.ackedAt, AckedSent: s.ackedSent, RTT: s.rtt.save(), SplitID: s.splitID, ReliableAt: s.reliableAt,
		Resent: s.resent, Lost: s.lost, Requests: s.requests, Unasked: s.unrequested, Narrowed: s.narrowed,
		Forgetful: s.forgetful, Doubts: s.doubts,
		Narrowing: savedNarrowing{
			Turns: s.narrowing.turns, Lost: s.narrowing.lost, LostAt: s.narrowing.lostAt, Until: s.narrowing.until,
			Fails: s.narrowing.fails,
		},
		Congestion: savedCongestion{
			Window: g.window, Threshold: g.threshold, InFlight: g.inFlight, Limiting: g.limiting,
			Recovered: g.recovered, Reduced: g.reduced, LossShare: g.lossShare,
			LossesFrom: g.losses.from, Newest: g.losses.newest,
			Losses: g.losses.lost, Heavy: g.losses.heavy, Trips: g.trips, Probing: g.probing, Probed: g.probed,
			ProbeRoom: g.probeRoom, BeforeWindow: g.before.window, BeforeThreshold: g.before.threshold,
		},
		Queue: savedPathQueue{
			Least: q.least, Before: q.before, Since: q.since, Round: q.round, RoundEnd: q.roundEnd, Standing: q.standing,
			Lagging: q.lagging, Late: q.late, Doubts: q.doubts, Pinged: q.pinged, PingTrip: q.pingTrip,
		},
	}
	for _, ch := range s.channels {
		v.Channels = append(v.Channels, savedNumbers{Order: ch.order, Sequence: ch.sequence})
	}
	places := make(map[*outgoing]int)
	place := func(m *outgoing) int {
		at, known := places[m]
		if !known {
			at = len(v.Messages)
			places[m] = at
			v.Messages = append(v.Messages, m.save())
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

func (m *outgoing) save() savedOutgoing {
	return savedOutgoing{
		Payload: m.payload, Pad: m.pad, Mode: m.mode, Channel: m.channel, Receipt: m.receipt, QueuedAt: m.queuedAt,
		Control: m.control, InLine: m.inLine, Order: m.order, Sequence: m.sequence, SplitID: m.splitID,
		Parts: m.parts, Sent: m.sent, Settled: m.settled, Numbered: m.numbered, Again: m.again,
	}
}

func (q *queue) save(place func(*outgoing) int) (places []int) {
	for i := range q.size {
		places = append(places, place(*q.at(i)))
	}
	return places
}

// restore brings a fresh sender, whose MTU is set, to a saved state.
func (s *sender) restore(v *savedSender, o *Options) error {
	g, q := &v.Congestion, &v.Queue
	switch {
	case len(v.Channels) > maxChannels:
		return saved.Fault("number of channels", len(v.Channels))
	case v.MTU > 0 && (g.Window < 1 || g.Window > maxSegment || g.Threshold < 1 || g.Threshold > maxSegment),
		g.InFlight < -maxSegment || g.InFlight > maxSegment, !(g.LossShare >= 0 && g.LossShare <= 1),
		g.Losses < 0 || g.Losses > maxSegment, g.Trips > mostTrips, g.ProbeRoom < -maxSegment || g.ProbeRoom > maxSegment:
		return saved.Fault("window", g.Window)
	case v.Narrowed != 0 && (!slices.Contains(probes[1:], v.Narrowed) || v.Narrowed >= s.mtu):
		return saved.Fault("MTU of the path", v.Narrowed)
	case v.Debt < 0 || v.Debt > maxSegment:
		return saved.Fault("debt of the pacer", v.Debt)
	case len(v.Doubts) > maxOpenSplits || slices.ContainsFunc(v.Doubts, func(d doubt) bool { return !s.fits(&d) }):
		return saved.Fault("doubts", len(v.Doubts))
	}
	s.doubts = v.Doubts
	s.narrowed, s.narrowing = v.Narrowed, narrowing{
		turns: min(v.Narrowing.Turns, narrowAfter), lost: v.Narrowing.Lost, lostAt: v.Narrowing.LostAt,
		until: v.Narrowing.Until, fails: min(v.Narrowing.Fails, narrowFails),
	}
	if s.narrowed > 0 {
		s.congestion.segment = s.datagramSize()
	}
	s.bulkTurn, s.pacer = v.BulkTurn, pacer{debt: v.Debt, at: v.PacerAt, wakeAt: v.WakeAt}
	s.ackedAt, s.ackedSent, s.rtt, s.splitID = v.AckedAt, v.AckedSent, v.RTT.restore(), v.SplitID
	s.reliableAt, s.resent, s.lost = v.ReliableAt, v.Resent, v.Lost
	s.requests, s.unrequested, s.forgetful = v.Requests, min(v.Unasked, mostUnrequested), v.Forgetful
	s.congestion = congestion{
		segment: s.congestion.segment, window: g.Window, threshold: g.Threshold, inFlight: g.InFlight,
		limiting: g.Limiting, recovered: g.Recovered, reduced: g.Reduced, lossShare: g.LossShare,
		losses: lossCount{from: g.LossesFrom, newest: g.Newest, lost: g.Losses, heavy: g.Heavy},
		trips:  g.Trips, probing: g.Probing, probed: g.Probed, probeRoom: g.ProbeRoom,
		queue: pathQueue{
			least: q.Least, before: q.Before, since: q.Since, round: q.Round, roundEnd: q.RoundEnd, standing: q.Standing,
			lagging: q.Lagging, late: q.Late, doubts: q.Doubts, pinged: q.Pinged, pingTrip: q.PingTrip,
		},
	}
	s.congestion.before.window = max(0, min(g.BeforeWindow, maxSegment))
	s.congestion.before.threshold = max(0, min(g.BeforeThreshold, maxSegment))
	for _, ch := range v.Channels {
		s.channels = append(s.channels, sendChannel{order: ch.Order, sequence: ch.Sequence})
	}
	return s.restoreMessages(v, o)
}

// restoreMessages makes the messages, and puts each where it was: into a queue, into flight, or among those to report.
func (s *sender) restoreMessages(v *savedSender, o *Options) error {
	messages := make([]*outgoing, len(v.Messages))
	for i := range v.Messages {
		m, err := v.Messages[i].restore(s, o)
		if err != nil {
			return err
		}
		messages[i] = m
		if m.parts > 1 {
			s.openSplits++
			s.openIDs[m.splitID%openSplitIDs/64] |= 1 << (m.splitID % 64)
		}
		if !m.control {
			s.bytes += len(m.payload)
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
				where[at].done, m.inLine = true, false // earlier programs left the mark
				s.flight.done = append(s.flight.done, outcome{message: m})
				continue
			}
			where[at].queued = true
			s.wait([...]*queue{&s.control, &s.small, &s.bulk}[i], m)
		}
	}
	for i, m := range messages {
		if !where[i].fits(m) {
			return saved.Fault("parts of a message", m.parts)
		}
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
	case p.queued && m.parts == 0:
		return p.parts == 0 && m.sent == 0 && m.settled == 0
	case p.queued:
		return m.sent < m.parts && p.parts == m.sent-m.settled
	}
	return p.parts > 0 && m.sent == m.parts && p.parts == m.parts-m.settled
}

func (v *savedOutgoing) restore(s *sender, o *Options) (*outgoing, error) {
	switch {
	case len(v.Payload) == 0 || len(v.Payload) > max(o.MaxMessage, maxPassword+64):
		return nil, saved.Fault("length of a message", len(v.Payload))
	case v.Mode > codec.ReliableSequenced || v.Channel >= maxChannels || v.Pad > 7:
		return nil, saved.Fault("mode of a message", v.Mode)
	case v.Parts != 0 && (s.mtu == 0 || int(v.Parts) != s.partsOf(len(v.Payload)) || v.Parts > 1 && !v.Mode.IsReliable()):
		return nil, saved.Fault("number of parts", v.Parts)
	case v.Sent > v.Parts || v.Settled > v.Sent || !v.Again.within(v.Parts):
		return nil, saved.Fault("number of sent parts", v.Sent)
	}
	m := s.memory.record()
	*m = outgoing{
		payload: s.memory.copy(v.Payload), pad: s.padOf(v.Pad), mode: v.Mode, channel: v.Channel, receipt: v.Receipt,
		queuedAt: v.QueuedAt, control: v.Control, inLine: v.InLine, order: v.Order, sequence: v.Sequence,
		splitID: v.SplitID, parts: v.Parts, sent: v.Sent, settled: v.Settled, numbered: v.Numbered,
		again: v.Again,
	}
	return m, nil
}
