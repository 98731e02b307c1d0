package proxy

import (
	"time"

	"tidegate/proxy/stats"
)

// maxParked bounds the datagrams of ModeRelay that wait on a path: 512 of 1,500 bytes are 768 KiB. At 150 in 10 ms
// that is a delay of 34 ms, beyond which a game is better served by a loss.
const maxParked = 512

// parked are datagrams of sessions in ModeRelay that wait for their path. There is no codec that would keep them.
type parked struct{ fifo[parkedDatagram] }

type parkedDatagram struct {
	of    *entry
	bytes []byte
}

// forwardUp passes a client's datagram on to its server, or holds it until its path is free.
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

// sendParked sends the first datagram that is parked on a path, and reports whether there was one.
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
