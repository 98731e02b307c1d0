package proxy

import (
	"time"

	"tidegate/proxy/stats"
)

// maxParked bounds the datagrams of ModeRelay that wait on a path. 512 datagrams of 1,500 bytes are 768 KiB. At 150
// datagrams in 10 ms that is a delay of 34 ms. A longer delay harms a game more than a loss.
const maxParked = 512

// parked are datagrams of sessions in ModeRelay that wait for their path. These sessions have no codec that could
// keep them.
type parked struct{ fifo[parkedDatagram] }

type parkedDatagram struct {
	of    *entry
	bytes []byte
}

// forwardUp forwards a client's datagram to its server, or parks it until its path is free.
func (o *outlet) forwardUp(now time.Time, e *entry, datagram []byte) {
	p := &e.Value
	way := p.path
	switch {
	case way == nil:
	case !way.blocked && way.free(now):
		o.paths.count(now, way)
	case way.parked.len() == maxParked:
		o.drops.add(now, dropped{stats.DropPaced, p.listener, e.Key.Client, len(datagram), nil})
		return
	default:
		slot := way.parked.push()
		slot.of, slot.bytes = e, append(slot.bytes[:0], datagram...)
		o.paths.block(way)
		return
	}
	o.toServer(now, e, datagram, true)
}

// sendParked sends the first datagram that is parked on a path. It reports whether there was one.
func (o *outlet) sendParked(now time.Time, way *path) bool {
	d := way.parked.pop()
	if d == nil {
		return false
	}
	if p := &d.of.Value; p.path == way && p.socket != nil {
		o.paths.count(now, way)
		o.counters.Paced++
		o.toServer(now, d.of, d.bytes, false)
	}
	d.of = nil
	return true
}
