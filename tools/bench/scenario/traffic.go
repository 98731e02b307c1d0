package scenario

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// lostAfter is the default time after which an item in flight counts as lost.
const lostAfter = 250 * time.Millisecond

// load is the work of a subject's clients.
type load interface {
	// stats returns the figures so far.
	stats() *traffic
	// send starts the next item, which was due at a time.
	send(at time.Time)
	// turn waits until a time for items that return.
	turn(until time.Time) error
	// open opens all sessions at the subject, so that none is new.
	open() error
	close()
}

// traffic counts the items of a load that were sent and that have returned. Each item has a number and the time when
// it was due.
type traffic struct {
	flight     int           // items in flight where there is no timetable
	burst      int           // items at once where there is a timetable
	patience   time.Duration // after which an item in flight counts as lost
	epoch      time.Time     // start of the stamps' clock
	now        time.Time
	sent, back uint64
	since      time.Time // items that were due earlier do not count
	delays     *hdrhistogram.Histogram

	ctx context.Context // its end ends the load

	// The times of the items in flight, by number modulo the length. They are between tail and head. A zero time is an
	// item that has returned.
	pending    [1 << 15]time.Time
	head, tail uint64
	inFlight   int
}

func newTraffic(flight int) *traffic {
	return &traffic{
		flight:   flight,
		burst:    1,
		patience: lostAfter,
		epoch:    time.Now(),
		delays:   NewDelays(),
		ctx:      context.Background(),
	}
}

// NewDelays returns an empty histogram of delays from 1 µs to 10 s, in µs, with three digits.
func NewDelays() *hdrhistogram.Histogram { return hdrhistogram.New(1, 10_000_000, 3) }

// depart records an item that is sent, and returns its number.
func (t *traffic) depart(at time.Time) (number uint64) {
	if t.head-t.tail == uint64(len(t.pending)) {
		t.settle(t.tail)
		t.tail++
	}
	number = t.head
	t.pending[number%uint64(len(t.pending))] = at
	t.head++
	t.inFlight++
	t.sent++
	return number
}

// arrive records an item that has returned.
func (t *traffic) arrive(number uint64, at time.Time) {
	if number >= t.tail && number < t.head {
		t.settle(number)
	}
	if at.Before(t.since) {
		return
	}
	t.back++
	_ = t.delays.RecordValue(max(1, t.now.Sub(at).Microseconds())) // beyond 10 s nothing returns
}

// minStamp is the size of a stamp in bytes: time and number.
const minStamp = 16

// stamp writes a stamp into b and records the item as sent. The function read finds the stamp again.
func (t *traffic) stamp(b []byte, at time.Time) {
	clear(b)
	binary.LittleEndian.PutUint64(b, uint64(at.Sub(t.epoch)))
	binary.LittleEndian.PutUint64(b[8:], t.depart(at))
}

// read records the return of a stamp.
func (t *traffic) read(b []byte) {
	if len(b) >= minStamp {
		at := t.epoch.Add(time.Duration(binary.LittleEndian.Uint64(b)))
		t.arrive(number(b), at)
	}
}

// number returns the number in a stamp.
func number(b []byte) uint64 { return binary.LittleEndian.Uint64(b[8:]) }

// settle removes an item from those in flight.
func (t *traffic) settle(number uint64) {
	if at := &t.pending[number%uint64(len(t.pending))]; !at.IsZero() {
		*at = time.Time{}
		t.inFlight--
	}
}

// giveUp removes the items that have been in flight for too long.
func (t *traffic) giveUp() {
	for ; t.tail < t.head; t.tail++ {
		if at := t.pending[t.tail%uint64(len(t.pending))]; !at.IsZero() && t.now.Sub(at) < t.patience {
			return
		}
		t.settle(t.tail)
	}
}

// reset sets the counts to zero. Items in flight do not count.
func (t *traffic) reset() {
	t.sent, t.back, t.since = 0, 0, time.Now()
	t.delays.Reset()
}

// saturate replaces each item that returns by a new one, for a time.
func saturate(l load, d time.Duration) error {
	t := l.stats()
	t.now = time.Now()
	for end := t.now.Add(d); t.now.Before(end); {
		for n := t.flight - t.inFlight; n > 0; n-- {
			l.send(t.now)
		}
		if err := l.turn(t.now.Add(lostAfter / 5)); err != nil {
			return err
		}
		t.giveUp()
	}
	return nil
}

// pace sends a number of items a second on a fixed timetable, independently of returns. Then it waits for the last
// ones.
func pace(l load, rate int, d time.Duration) error {
	t := l.stats()
	t.now = time.Now()
	begin, every := t.now, time.Second*time.Duration(t.burst)/time.Duration(rate)
	end := begin.Add(d)
	for n := time.Duration(0); ; {
		for due := begin.Add(n * every); !due.After(t.now) && due.Before(end); due = begin.Add(n * every) {
			for range t.burst {
				l.send(due)
			}
			n++
		}
		due := begin.Add(n * every)
		if !due.Before(end) {
			break
		}
		if err := l.turn(due); err != nil {
			return err
		}
	}
	for last := end.Add(t.patience); t.now.Before(last) && t.back < t.sent; {
		if err := l.turn(last); err != nil {
			return err
		}
	}
	return nil
}
