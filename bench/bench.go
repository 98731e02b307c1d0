// Package bench measures Tidegate and what its users might take instead, in turn and in one run, so that what else the
// machine does meets all alike: ratios of one run are worth something, single figures of different runs are not.
//
// Start with Forward, the plain case. A Subject is one thing that is measured: a program of its own in front of an echo.
// The load and the echo share a process that is pinned to one core, and the subject has another.
package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say how to measure.
type Options struct {
	Sessions int           // clients, each at an address of its own
	Size     int           // bytes of each datagram, at least minSize
	Rate     int           // datagrams a second that the clients send, on a fixed timetable; 0: as many as come back
	Window   time.Duration // of one measurement
	Rounds   int           // measurements of each subject, of which the medians count
	Vs       []string      // subjects beside Tidegate, by name
	Delay    time.Duration // Tidegate's max_batch_delay
	Tidegate []string      // command that is Tidegate, to be followed by "run -c FILE"
	Progress func(string)  // told of what is under way; may be nil
}

// minSize has room for a datagram's stamp.
const minSize = 16

// ErrOptions is for Options that cannot be measured.
var ErrOptions = errors.New("cannot be measured")

func (o *Options) check() error {
	switch {
	case o.Sessions < 1 || o.Sessions > maxSessions:
		return fmt.Errorf("%d sessions: %w: want 1 to %d", o.Sessions, ErrOptions, maxSessions)
	case o.Size < minSize || o.Size > 1400:
		return fmt.Errorf("datagrams of %d bytes: %w: want %d to 1400", o.Size, ErrOptions, minSize)
	case o.Rounds < 1 || o.Window < 100*time.Millisecond:
		return fmt.Errorf("%d rounds of %v: %w: want at least 1 of 100ms", o.Rounds, o.Window, ErrOptions)
	}
	for _, name := range o.Vs {
		if !slices.ContainsFunc(others, func(k kind) bool { return k.name == name }) {
			return fmt.Errorf("%q: %w: want one of %v", name, ErrOptions, Names())
		}
	}
	return nil
}

func (o *Options) tell(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
