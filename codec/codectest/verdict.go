package codectest

import (
	"time"

	"tidegate/codec"
)

// enoughReports is the number of Notify messages with a receipt from which on one must be Delivered.
const enoughReports = 8

// settled reports whether every promise has been kept. Reliable messages have arrived, with the last one of each
// sequenced channel, and their receipts are answered.
func (l *ledger) settled() bool {
	for ; l.unsettled < len(l.records); l.unsettled++ {
		rec := &l.records[l.unsettled]
		if rec.mode.IsReliable() && rec.receipt && rec.answers == 0 || l.mustArrive(l.unsettled) && rec.arrivals == 0 {
			return false
		}
	}
	return true
}

// mustArrive reports whether a reliable message must arrive in any network conditions. A later message on the same
// channel may replace a sequenced one.
func (l *ledger) mustArrive(index int) bool {
	rec := &l.records[index]
	return rec.mode.IsReliable() &&
		(rec.mode != codec.ReliableSequenced || l.lastSent[rec.channel] == index+1)
}

// checkArrivals checks the arrivals of a session that lived until it had settled, or had enough time to. In clear
// conditions every message must arrive.
func (l *ledger) checkArrivals(clear bool) {
	for i := range l.records {
		rec := &l.records[i]
		if rec.arrivals == 0 && (clear || l.mustArrive(i)) {
			l.fault("%v message %d of %d bytes on channel %d never arrived", rec.mode, i, rec.size, rec.channel)
		}
		if rec.mode.IsReliable() && rec.answers > 0 && !rec.delivered {
			l.fault("%v message %d reported lost in a session that lives", rec.mode, i)
		}
	}
	l.checkReports(clear)
}

// checkReports checks that in clear conditions the sender learns of arrived Notify messages. The report of the last
// ones may never come, because it waits for the peer's next datagram.
func (l *ledger) checkReports(clear bool) {
	asked, delivered := 0, 0
	for i := range l.records {
		if rec := &l.records[i]; rec.mode == codec.Notify && rec.receipt {
			asked++
			if rec.delivered {
				delivered++
			}
		}
	}
	if clear && asked >= enoughReports && delivered == 0 {
		l.fault("none of %d notify messages reported delivered in clear weather", asked)
	}
}

// checkReceipts checks a direction whose sender is disconnected. Each receipt has an answer, and each message reported
// as delivered did arrive.
func (l *ledger) checkReceipts() {
	for i := range l.records {
		rec := &l.records[i]
		if rec.receipt && rec.answers != 1 {
			l.r.Errorf("%s: receipt of %v message %d answered %d times, want once", l.name, rec.mode, i, rec.answers)
		}
		if rec.delivered && rec.arrivals == 0 && !l.overtaken(i) {
			l.fault("%v message %d reported delivered, but never arrived", rec.mode, i)
		}
	}
}

// overtaken reports whether a sequenced message may have reached the peer's codec, which then dropped it as stale.
func (l *ledger) overtaken(index int) bool {
	rec := &l.records[index]
	sequenced := rec.mode == codec.UnreliableSequenced || rec.mode == codec.ReliableSequenced
	return sequenced && l.tip[rec.channel] > index
}

// checkStats checks the figures that any protocol can know after a session's traffic.
func (p *pair) checkStats(w weather) {
	for _, s := range []*side{p.client, p.server} {
		stats := s.conn.Stats()
		if stats.Sent == 0 || stats.Received == 0 {
			p.r.Errorf("%s: Stats count %d datagrams sent, %d received", s.name, stats.Sent, stats.Received)
		}
		if stats.RTT != 0 && w.calm && (stats.RTT < 2*w.net.Latency || stats.RTT > 2*w.net.Latency+time.Second) {
			p.r.Errorf("%s: Stats.RTT = %v with a latency of %v", s.name, stats.RTT, w.net.Latency)
		}
		if !p.net.RunUntil(settleLimit, func() bool { return s.conn.Stats().Queued == 0 }) {
			p.r.Errorf("%s: Stats.Queued stays at %d", s.name, s.conn.Stats().Queued)
		}
	}
}

// checkGrowth checks that no count has shrunk since the last call.
func (s *side) checkGrowth() {
	last, now := s.stats, s.conn.Stats()
	if now.Sent < last.Sent || now.Received < last.Received || now.Resent < last.Resent ||
		now.Lost < last.Lost || now.Dropped < last.Dropped || now.Queued < 0 {
		s.r.Errorf("%s: Stats went from %+v to %+v", s.name, last, now)
	}
	s.stats = now
}
