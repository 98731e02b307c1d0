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
	debt   int64         // bytes
	at     time.Duration // time of debt
	wakeAt time.Duration // when the delayed datagram may leave; 0 if none was delayed
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
	p.wakeAt = 0
	if rate.in == 0 {
		return true
	}
	p.pay(now, rate)
	burst := max(int64(burstDatagrams*segment), rate.during(burstTime))
	if p.debt < burst+int64(leeway) {
		return true
	}
	excess := p.debt + int64(segment) - burst
	p.wakeAt = now + max(time.Duration(excess*int64(rate.in)/rate.bytes), time.Millisecond)
	return false
}

func (p *pacer) sent(size int) { p.debt += int64(size) }

// pay reduces the debt by the bytes earned since the last call. A fraction of a byte, and its time, stays unpaid.
func (p *pacer) pay(now time.Duration, rate pace) {
	earned := rate.during(min(now-p.at, time.Second))
	if earned > 0 || p.debt == 0 {
		p.debt, p.at = max(0, p.debt-earned), now
	}
}
