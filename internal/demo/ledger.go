package demo

// Delivery is what became of a client's, or all clients', reliable messages.
type Delivery struct {
	Sent       uint64
	Returned   uint64 // the server's echo came back, counted once a message
	Missing    uint64 // no echo came back
	Duplicated uint64 // echoes beyond the first
}

// add joins the delivery of another client.
func (d *Delivery) add(o Delivery) {
	d.Sent += o.Sent
	d.Returned += o.Returned
	d.Missing += o.Missing
	d.Duplicated += o.Duplicated
}

// ledger books a client's reliable messages by number, from 0 on. The messages under way are at most as many as the
// client's send queue and the proxy's hold.
type ledger struct {
	sent       uint64
	returned   uint64
	duplicated uint64
	underWay   map[uint64]struct{}
}

func newLedger() ledger { return ledger{underWay: make(map[uint64]struct{})} }

// send books that the message of the next number went out.
func (l *ledger) send() {
	l.underWay[l.sent] = struct{}{}
	l.sent++
}

// receive books that an echo came back. It reports false for a number that was never sent.
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

// delivery is how things stand if nothing more comes back.
func (l *ledger) delivery() Delivery {
	return Delivery{
		Sent: l.sent, Returned: l.returned, Missing: uint64(len(l.underWay)), Duplicated: l.duplicated,
	}
}
