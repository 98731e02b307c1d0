package rtype

import "time"

// pingTries is the number of pings within PongTimeout before a client is given up: a ping may be lost.
const pingTries = 4

// pinger pings a server's client every interval, and more often while the client has not answered.
// docs/protocols/rtype.md#session
type pinger struct {
	interval, timeout time.Duration
	next              time.Time // zero: no pings
	owedSince         time.Time // since when the client has owed an answer; zero: it does not
	timedAt           time.Time // send time of a ping whose answer measures the round trip; zero: none
	rtt               time.Duration
}

func (p *pinger) start(now time.Time) {
	if p.interval > 0 {
		p.next = now.Add(p.interval)
	}
}

// deadline returns when the client is given up; zero: never.
func (p *pinger) deadline() time.Time {
	if p.owedSince.IsZero() {
		return time.Time{}
	}
	return p.owedSince.Add(p.timeout)
}

// takeDue reports whether a ping is due, and counts it as sent.
func (p *pinger) takeDue(now time.Time) bool {
	if p.next.IsZero() || now.Before(p.next) {
		return false
	}
	p.timedAt = time.Time{}
	if p.owedSince.IsZero() {
		p.owedSince, p.timedAt = now, now
	}
	p.next = now.Add(p.timeout / pingTries)
	return true
}

// heard records a message of the client.
func (p *pinger) heard() {
	if !p.owedSince.IsZero() {
		p.next = p.owedSince.Add(p.interval)
		p.owedSince = time.Time{}
	}
}

// answered records a pong.
func (p *pinger) answered(now time.Time) {
	if p.timedAt.IsZero() {
		return
	}
	sample := now.Sub(p.timedAt)
	p.timedAt = time.Time{}
	if p.rtt == 0 {
		p.rtt = sample
	}
	p.rtt += (sample - p.rtt) / 8
}
