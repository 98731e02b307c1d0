package netio

import "time"

const (
	busyTurn      = 64                   // datagrams in a turn from which waiting for more gains little
	worthWaiting  = 2                    // datagrams that a delay must bring
	loadPeriod    = 4 * time.Millisecond // over which the load is measured
	shortestPause = 32 * time.Millisecond
	longestPause  = 2 * time.Second
)

// moderation delays the next turn under a steady load of few datagrams a turn, so that it gets more of them. Network
// cards moderate their interrupts for the same reason. A quiet loop, and a turn with many datagrams, have no delay.
//
// Some peers send only when they have an answer. Delays slow them down, and so bring fewer datagrams, not more. When
// the rate falls with the delays, there are none for a pause, which doubles each time.
type moderation struct {
	max     time.Duration // of a delay; 0 is off
	handled int           // datagrams since the last turn

	began    time.Time // of the period of load that is measured now
	count    int       // its datagrams
	rate     float64   // datagrams a second in the last whole period
	delayed  bool      // this period has delays
	pause    time.Duration
	pausedTo time.Time
}

// next returns the sleep before the next turn. It ends at the deadline, unless that is zero. The result may be
// negative.
func (m *moderation) next(deadline time.Time) time.Duration {
	handled := m.handled
	if m.max <= 0 || handled == 0 {
		return 0
	}
	m.handled = 0
	now := time.Now()
	m.measure(now, handled)
	if handled >= busyTurn || m.rate*m.max.Seconds() < worthWaiting || now.Before(m.pausedTo) {
		return 0
	}
	m.delayed = true
	d := min(m.max, time.Duration(busyTurn/m.rate*float64(time.Second)))
	if !deadline.IsZero() {
		d = min(d, deadline.Sub(now))
	}
	return d
}

// measure adds a turn's datagrams to the load.
func (m *moderation) measure(now time.Time, handled int) {
	m.count += handled
	took := now.Sub(m.began)
	if took < loadPeriod {
		return
	}
	rate := float64(m.count) / took.Seconds()
	if m.delayed && took < 2*loadPeriod { // a longer one had silence, which is not the delays' fault
		m.judge(now, rate)
	}
	m.began, m.count, m.rate, m.delayed = now, 0, rate, false
}

// judge compares the rate of a period of delays with the one before.
func (m *moderation) judge(now time.Time, rate float64) {
	if rate >= m.rate*3/4 {
		m.pause /= 2
		return
	}
	m.pause = min(max(2*m.pause, shortestPause), longestPause)
	m.pausedTo = now.Add(m.pause)
}
