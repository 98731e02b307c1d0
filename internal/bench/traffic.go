package bench

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// lostAfter is when what is under way is given up, of a load that does not say otherwise.
const lostAfter = 250 * time.Millisecond

// load is what the clients of a subject do.
type load interface {
	// books say what became of it so far.
	books() *traffic
	// send has a client do the next thing, which should have been done at a time.
	send(at time.Time)
	// turn waits until a time for what comes back.
	turn(until time.Time) error
	// greet has all clients known to the subject, so that none is new.
	greet() error
	close()
}

// traffic is the books of a load: what was sent, and what has come back. Each thing has a number and the time that it
// should have left at.
type traffic struct {
	flight     int           // how many are under way at once where there is no timetable
	burst      int           // how many leave at a time where there is one
	patience   time.Duration // after which what is under way is given up
	begun      time.Time     // of the clock that stamps are of
	now        time.Time
	sent, back uint64
	since      time.Time // what is stamped earlier does not count
	delays     *hdrhistogram.Histogram

	ctx context.Context // its end ends the load

	// What is under way, by number modulo the length: those from tail up to head that have a stamp.
	under      [1 << 15]time.Time
	head, tail uint64
	inFlight   int
}

func newTraffic(flight int) *traffic {
	return &traffic{
		flight:   flight,
		burst:    1,
		patience: lostAfter,
		begun:    time.Now(),
		delays:   NewDelays(),
		ctx:      context.Background(),
	}
}

// NewDelays returns an empty histogram of delays from 1 µs to 10 s, in µs, with three digits.
func NewDelays() *hdrhistogram.Histogram { return hdrhistogram.New(1, 10_000_000, 3) }

// leaves books what is sent, and returns its number.
func (t *traffic) leaves(at time.Time) (number uint64) {
	if t.head-t.tail == uint64(len(t.under)) {
		t.settle(t.tail)
		t.tail++
	}
	number = t.head
	t.under[number%uint64(len(t.under))] = at
	t.head++
	t.inFlight++
	t.sent++
	return number
}

// returns books what has come back.
func (t *traffic) returns(number uint64, at time.Time) {
	if number >= t.tail && number < t.head {
		t.settle(number)
	}
	if at.Before(t.since) {
		return
	}
	t.back++
	_ = t.delays.RecordValue(max(1, t.now.Sub(at).Microseconds())) // beyond 10 s nothing comes back
}

// minStamp is the bytes of a stamp: time and number.
const minStamp = 16

// stamp writes into b what read finds there when it has come back.
func (t *traffic) stamp(b []byte, at time.Time) {
	clear(b)
	binary.LittleEndian.PutUint64(b, uint64(at.Sub(t.begun)))
	binary.LittleEndian.PutUint64(b[8:], t.leaves(at))
}

// read books the return of what was stamped.
func (t *traffic) read(b []byte) {
	if len(b) >= minStamp {
		at := t.begun.Add(time.Duration(binary.LittleEndian.Uint64(b)))
		t.returns(number(b), at)
	}
}

// number returns the number in a stamp.
func number(b []byte) uint64 { return binary.LittleEndian.Uint64(b[8:]) }

// settle takes something off what is under way.
func (t *traffic) settle(number uint64) {
	if at := &t.under[number%uint64(len(t.under))]; !at.IsZero() {
		*at = time.Time{}
		t.inFlight--
	}
}

// giveUp takes what has been under way for too long for lost.
func (t *traffic) giveUp() {
	for ; t.tail < t.head; t.tail++ {
		if at := t.under[t.tail%uint64(len(t.under))]; !at.IsZero() && t.now.Sub(at) < t.patience {
			return
		}
		t.settle(t.tail)
	}
}

// reset forgets what was counted. What is under way does not count.
func (t *traffic) reset() {
	t.sent, t.back, t.since = 0, 0, time.Now()
	t.delays.Reset()
}

// saturate keeps as many under way as come back, for a time.
func saturate(l load, d time.Duration) error {
	t := l.books()
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

// pace sends so many a second on a fixed timetable, whatever comes back, and then waits for the last.
func pace(l load, rate int, d time.Duration) error {
	t := l.books()
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
