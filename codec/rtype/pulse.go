package rtype

import "time"

// pingTries is how often a client is pinged within PongTimeout before it is given up: a ping may be lost.
const pingTries = 4

// pulse is a server's pinging of its client: every interval, and more often while the client owes a sign of life.
// docs/protocols/rtype.md#session
type pulse struct {
	interval, timeout time.Duration
	next              time.Time // zero: no pings
	owed              time.Time // since when the client owes a sign of life; zero: it does not
	timed             time.Time // when the one ping went out whose answer tells the round trip; zero: none
	rtt               time.Duration
}

func (p *pulse) start(now time.Time) {
	if p.interval > 0 {
		p.next = now.Add(p.interval)
	}
}

// deadline is when the client is given up; zero: never.
func (p *pulse) deadline() time.Time {
	if p.owed.IsZero() {
		return time.Time{}
	}
	return p.owed.Add(p.timeout)
}

// beat reports whether a ping is due, and takes it for sent.
func (p *pulse) beat(now time.Time) bool {
	if p.next.IsZero() || now.Before(p.next) {
		return false
	}
	p.timed = time.Time{}
	if p.owed.IsZero() {
		p.owed, p.timed = now, now
	}
	p.next = now.Add(p.timeout / pingTries)
	return true
}

// heard notes a sign of life.
func (p *pulse) heard() {
	if !p.owed.IsZero() {
		p.next = p.owed.Add(p.interval)
		p.owed = time.Time{}
	}
}

// answered notes a pong.
func (p *pulse) answered(now time.Time) {
	if p.timed.IsZero() {
		return
	}
	sample := now.Sub(p.timed)
	p.timed = time.Time{}
	if p.rtt == 0 {
		p.rtt = sample
	}
	p.rtt += (sample - p.rtt) / 8
}
