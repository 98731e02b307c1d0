package raknet

import "time"

// The pacer's burst in full datagrams, which are sent at once. The data due in burstTime is the burst if it is more.
// Timers have a resolution of a millisecond, and may be late by a few.
const (
	burstDatagrams = 10
	burstTime      = 4 * time.Millisecond
)

// pacer spreads a window over the round trip, so that a large message does not fill the queues of the path with a burst
// (docs/protocols/raknet/recovery.md#recovery-and-congestion). It counts the bytes sent ahead of the rate as a debt.
// Time pays it off.
type pacer struct {
	Debt    int64         `cbor:"11,keyasint,omitempty"` // bytes
	PacerAt time.Duration `cbor:"12,keyasint,omitempty"` // time of Debt
	WakeAt  time.Duration `cbor:"13,keyasint,omitempty"` // when the delayed datagram may leave; 0 if none was delayed
}

// pace is a number of bytes per time.
type pace struct {
	bytes int64
	in    time.Duration // 0: unlimited
}

func (p pace) during(t time.Duration) int64 { return p.bytes * int64(t) / int64(p.in) }

// allows reports whether another datagram of at most segment bytes may be sent now. leeway is the allowed excess over
// the burst.
func (p *pacer) allows(now time.Duration, rate pace, segment, leeway int) bool {
	p.WakeAt = 0
	if rate.in == 0 {
		return true
	}
	p.pay(now, rate)
	burst := max(int64(burstDatagrams*segment), rate.during(burstTime))
	if p.Debt < burst+int64(leeway) {
		return true
	}
	excess := p.Debt + int64(segment) - burst
	p.WakeAt = now + max(time.Duration(excess*int64(rate.in)/rate.bytes), time.Millisecond)
	return false
}

func (p *pacer) sent(size int) { p.Debt += int64(size) }

// pay reduces the debt by the bytes earned since the last call. A fraction of a byte, and its time, stays unpaid.
func (p *pacer) pay(now time.Duration, rate pace) {
	earned := rate.during(min(now-p.PacerAt, time.Second))
	if earned > 0 || p.Debt == 0 {
		p.Debt, p.PacerAt = max(0, p.Debt-earned), now
	}
}
