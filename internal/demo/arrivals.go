package demo

// arrivals are the books of a game server: how often each reliable message of each client reached it.
type arrivals map[uint16]map[uint64]int

// book notes what arrived with a message ID, if it is a reliable message of a client and unchanged.
func (a arrivals) record(id uint16, body []byte) {
	var p probe
	if p.parse(id, body) != nil || !p.reliable {
		return
	}
	if a[p.client] == nil {
		a[p.client] = make(map[uint64]int)
	}
	a[p.client][p.number]++
}

// correct puts what reached the server in place of what came back to the clients: an answer may be lost on a wire that
// resends nothing.
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
