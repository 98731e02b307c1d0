package raknet

import "time"

// The pacer's burst: so many full datagrams go out at once, or what is due in burstTime if that is more, since timers
// are no finer than a millisecond and may be late by a few.
const (
	burstDatagrams = 10
	burstTime      = 4 * time.Millisecond
)

// pacer spreads a window over the round trip, so that a large message does not fill the queues of the path with a burst
// (docs/protocols/raknet.md#recovery-and-congestion). It counts what went out ahead of the rate; time pays that off.
type pacer struct {
	debt   int64         // bytes
	at     time.Duration // of debt
	wakeAt time.Duration // when the datagram that was held back may go; 0 if none was
}

// pace is bytes in a time.
type pace struct {
	bytes int64
	in    time.Duration // 0: as fast as may be
}

func (p pace) during(t time.Duration) int64 { return p.bytes * int64(t) / int64(p.in) }

// allows reports whether another datagram of at most segment bytes may go out now. leeway is what it may go beyond the
// burst.
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

// pay takes off what the time since has earned. Less than a byte stays unpaid, and so its time.
func (p *pacer) pay(now time.Duration, rate pace) {
	earned := rate.during(min(now-p.at, time.Second))
	if earned > 0 || p.debt == 0 {
		p.debt, p.at = max(0, p.debt-earned), now
	}
}
