package demo

import "time"

// Delivery counts the reliable messages of one client or of all clients.
type Delivery struct {
	Sent       uint64
	Returned   uint64 // messages whose echo came back
	Missing    uint64 // messages without an echo
	Duplicated uint64 // echoes beyond the first
}

// add adds the counts of another client.
func (d *Delivery) add(o Delivery) {
	d.Sent += o.Sent
	d.Returned += o.Returned
	d.Missing += o.Missing
	d.Duplicated += o.Duplicated
}

// ledger records a client's reliable messages by number, from 0. The number of messages under way is bounded by the
// client's send queue and the proxy's.
type ledger struct {
	sent       uint64
	returned   uint64
	duplicated uint64
	underWay   map[uint64]struct{}
}

func newLedger() ledger { return ledger{underWay: make(map[uint64]struct{})} }

// send records that the message with the next number was sent.
func (l *ledger) send() {
	l.underWay[l.sent] = struct{}{}
	l.sent++
}

// receive records an echo. It reports false for a number that was never sent.
func (l *ledger) receive(number uint64) bool {
	if number >= l.sent {
		return false
	}
	if _, ok := l.underWay[number]; !ok {
		l.duplicated++
		return true
	}
	delete(l.underWay, number)
	l.returned++
	return true
}

// delivery returns the counts if no further echo comes.
func (l *ledger) delivery() Delivery {
	return Delivery{
		Sent: l.sent, Returned: l.returned, Missing: uint64(len(l.underWay)), Duplicated: l.duplicated,
	}
}

// arrivals counts how often each reliable message of each client has reached a game server, by client and number. A nil
// map records nothing.
type arrivals map[uint16]map[uint64]int

// record counts a message with an ID, if it is a reliable message of a client and unchanged.
func (a arrivals) record(id uint16, body []byte) {
	var p probe
	if a == nil || p.parse(id, body) != nil || !p.reliable {
		return
	}
	if a[p.client] == nil {
		a[p.client] = make(map[uint64]int)
	}
	a[p.client][p.number]++
}

// correct replaces the clients' echoes by the server's arrivals: a protocol without resends may lose an answer.
func (a arrivals) correct(d *Delivery) {
	arrived := uint64(0)
	d.Duplicated = 0
	for _, numbers := range a {
		for _, times := range numbers {
			arrived++
			d.Duplicated += uint64(times - 1)
		}
	}
	d.Missing = d.Sent - min(arrived, d.Sent)
}

// latencies counts durations in steps of 0.1 ms up to 2 s. Longer durations count as 2 s.
type latencies struct {
	counts [20_000]uint64
	total  uint64
}

const latencyStep = 100 * time.Microsecond

func (l *latencies) add(d time.Duration) {
	l.counts[min(max(d/latencyStep, 0), time.Duration(len(l.counts)-1))]++
	l.total++
}

// quantile returns the duration that the share q of all durations does not exceed, rounded up to a step; 0 without
// durations.
func (l *latencies) quantile(q float64) time.Duration {
	rank := uint64(q * float64(l.total))
	var below uint64
	for i, n := range l.counts {
		if below += n; below > rank || below == l.total && n > 0 {
			return time.Duration(i+1) * latencyStep
		}
	}
	return 0
}
