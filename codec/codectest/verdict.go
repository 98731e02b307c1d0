package codectest

import "tidegate/codec"

// enoughReports is how many Notify messages have to ask for a receipt before one must be Delivered.
const enoughReports = 8

// settled reports whether everything that was promised has happened: reliable messages have arrived, the last one of
// each sequenced channel among them, and their receipts are answered.
func (l *ledger) settled() bool {
	for ; l.unsettled < len(l.records); l.unsettled++ {
		rec := &l.records[l.unsettled]
		if rec.mode.IsReliable() && rec.receipt && rec.answers == 0 || l.mustArrive(l.unsettled) && rec.arrivals == 0 {
			return false
		}
	}
	return true
}

// mustArrive reports whether a reliable message has to be received whatever the weather: one that is sequenced may be
// overtaken by a later one on its channel.
func (l *ledger) mustArrive(index int) bool {
	rec := &l.records[index]
	return rec.mode.IsReliable() &&
		(rec.mode != codec.ReliableSequenced || l.lastSent[rec.channel] == index+1)
}

// checkArrivals checks what arrived in a session that lived until it had settled, or was given long enough to.
// In clear weather, that is everything.
func (l *ledger) checkArrivals(clear bool) {
	for i := range l.records {
		rec := &l.records[i]
		if rec.arrivals == 0 && (clear || l.mustArrive(i)) {
			l.complain("%v message %d of %d bytes on channel %d never arrived", rec.mode, i, rec.size, rec.channel)
		}
		if rec.mode.IsReliable() && rec.answers > 0 && !rec.delivered {
			l.complain("%v message %d reported lost in a session that lives", rec.mode, i)
		}
	}
	l.checkReports(clear)
}

// checkReports checks that in clear weather the sender learns of Notify messages that they arrived, if not of all: the
// last ones may have to wait for word from the peer that never comes.
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
		l.complain("none of %d notify messages reported delivered in clear weather", asked)
	}
}

// checkReceipts checks a direction whose sender is disconnected: each receipt has been answered, and what was reported
// delivered did arrive.
func (l *ledger) checkReceipts() {
	for i := range l.records {
		rec := &l.records[i]
		if rec.receipt && rec.answers != 1 {
			l.r.Errorf("%s: receipt of %v message %d answered %d times, want once", l.name, rec.mode, i, rec.answers)
		}
		if rec.delivered && rec.arrivals == 0 && !l.overtaken(i) {
			l.complain("%v message %d reported delivered, but never arrived", rec.mode, i)
		}
	}
}

// overtaken reports whether a sequenced message may have reached the peer's codec and been dropped there as stale.
func (l *ledger) overtaken(index int) bool {
	rec := &l.records[index]
	sequenced := rec.mode == codec.UnreliableSequenced || rec.mode == codec.ReliableSequenced
	return sequenced && l.tip[rec.channel] > index
}
