package relay

import (
	"time"

	"tidegate/codec"
)

const (
	// quiesceTime is how long the old server may take to acknowledge the messages sent to it.
	quiesceTime = 2 * time.Second
	// tickTime is how long a game server may take to answer a message.
	tickTime = 100 * time.Millisecond
	// chatTime is how long a session waits for a pause of a server that sends all the time.
	chatTime = 500 * time.Millisecond
	// closeTime is how long a server may take to acknowledge the goodbye, in addition to the round trip.
	closeTime = 250 * time.Millisecond
)

// quiesce says goodbye to the old server once it has acknowledged and answered all messages. A game answers in its
// next tick, which is later than the acknowledgement of its library.
func (r *Relay) quiesce(now time.Time, e *Entry) {
	s := &e.Value
	l := &s.hold.departure
	stats := s.upstream.Conn.Stats()
	leaveAt := l.limit
	if stats.Queued == 0 {
		if l.acked.IsZero() {
			l.acked, l.limit = now, codec.Earliest(l.limit, now.Add(stats.RTT+chatTime))
		}
		leaveAt = l.acked
		if l.heard.After(leaveAt) {
			leaveAt = l.heard
		}
		leaveAt = codec.Earliest(leaveAt.Add(stats.RTT+tickTime), l.limit)
	}
	if now.Before(leaveAt) {
		s.hold.next = leaveAt
		return
	}
	s.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	s.hold.next = now.Add(stats.RTT + closeTime)
	r.enter(now, e, leaving)
	r.settle(now, e)
}

// depart makes a session that has left its server seek another. The client gets the old server's messages until
// another server has taken the session.
func (r *Relay) depart(now time.Time, e *Entry) {
	s := &e.Value
	r.closing.add(now, e, r)
	r.leaveServer(now, s)
	r.enter(now, e, seeking)
	r.waiting.seek(now, e)
}
