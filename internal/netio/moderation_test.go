package netio

import (
	"testing"
	"testing/synctest"
	"time"
)

// turns lets datagrams come, each after the gap, for a time. A turn takes all that came during the delay before it.
// It returns the number of turns, and the longest delay.
func (m *moderation) turns(gap, lasting time.Duration) (n int, longest time.Duration) {
	for end := time.Now().Add(lasting); time.Now().Before(end); n++ {
		d := m.next(time.Time{})
		time.Sleep(max(d, gap))
		m.handled = max(1, int(d/gap))
		longest = max(longest, d)
	}
	return n, longest
}

func TestModeration(t *testing.T) {
	const most = 200 * time.Microsecond
	for _, c := range []struct {
		name    string
		max     time.Duration
		gap     time.Duration // between two datagrams
		each    float64       // datagrams that a turn must have, about
		longest time.Duration
	}{
		{"off", 0, 25 * time.Microsecond, 1, 0},
		{"a small server", most, 500 * time.Microsecond, 1, 0},
		{"too few to gain by a delay", most, most * 2 / 3, 1, 0},
		{"a steady load", most, 25 * time.Microsecond, 8, most},
		// Every second turn has 64 datagrams, and no delay after it.
		{"a heavy load needs less time", most, time.Microsecond, 29, 64 * time.Microsecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := moderation{max: c.max}
			const lasting = time.Second
			n, longest := m.turns(c.gap, lasting)
			each := float64(lasting/c.gap) / float64(n)
			if each < 0.9*c.each || each > 1.1*c.each {
				t.Errorf("%s: %.1f datagrams a turn, want %.1f", c.name, each, c.each)
			}
			if longest > c.longest {
				t.Errorf("%s: a delay of %v, want at most %v", c.name, longest, c.longest)
			}
		})
	}
}

// TestModerationAfterSilence checks that the first datagrams after a silence have no delay, however heavy the load
// was before.
func TestModerationAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := moderation{max: 200 * time.Microsecond}
		if _, longest := m.turns(25*time.Microsecond, time.Second); longest == 0 {
			t.Fatal("no delay under load")
		}
		time.Sleep(time.Second)
		if _, longest := m.turns(25*time.Microsecond, loadPeriod/2); longest != 0 {
			t.Errorf("a delay of %v after a silence", longest)
		}
		if _, longest := m.turns(25*time.Microsecond, 4*loadPeriod); longest == 0 {
			t.Error("no delay when the load is steady again")
		}
	})
}

// TestModerationOfAnswers checks that delays end where each datagram waits for the answer to the one before.
func TestModerationOfAnswers(t *testing.T) {
	const (
		most    = 200 * time.Microsecond
		path    = 40 * time.Microsecond // from an answer to the next datagram
		lasting = 20 * time.Second
	)
	synctest.Test(t, func(t *testing.T) {
		m := moderation{max: most}
		datagrams := 0
		for end := time.Now().Add(lasting); time.Now().Before(end); datagrams++ {
			m.handled = 1
			time.Sleep(path + m.next(time.Time{}))
		}
		if all := int(lasting / path); datagrams < all*98/100 {
			t.Errorf("%d of %d datagrams came: delays slow the peer down", datagrams, all)
		}
	})
}

func TestModerationDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 200 * time.Microsecond
		m := moderation{max: most}
		m.turns(25*time.Microsecond, time.Second)
		for _, c := range []struct{ deadline, want time.Duration }{{2 * most, most}, {most / 2, most / 2}, {-most, -most}} {
			m.handled = 1
			if got := m.next(time.Now().Add(c.deadline)); got != c.want {
				t.Errorf("a deadline in %v: a delay of %v, want %v", c.deadline, got, c.want)
			}
			if got := m.next(time.Time{}); got != 0 {
				t.Errorf("another delay of %v for the same turn", got)
			}
		}
		m.handled = busyTurn
		if got := m.next(time.Time{}); got != 0 {
			t.Errorf("a delay of %v after a busy turn", got)
		}
	})
}
