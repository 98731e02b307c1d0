// Package bench measures Tidegate and what its users might take instead, in turn and in one run, so that what else the
// machine does meets all alike: ratios of one run are worth something, single figures of different runs are not.
//
// Start with Forward, the plain case, and scenario, which all have in common. A subject is one thing that is measured:
// a program of its own in front of a server. The load and the server share a process that is pinned to one core, and
// the subject has another.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say how to measure.
type Options struct {
	Sessions int           // clients, each at an address of its own
	Grow     int           // Tidegate's ways are measured with so many clients, too, in the same rounds; 0: they are not
	Size     int           // bytes of each datagram or message, at least minSize
	From, To string        // protocols of clients and server, where connections are ended
	Rate     int           // what clients send a second, on a fixed timetable; 0: as many as come back
	Flight   int           // messages under way at once where there is no timetable; 0: messagesInFlight
	Burst    int           // messages that a client says at a time; 0: one
	Window   time.Duration // of one measurement
	Rounds   int           // measurements of each subject, of which the medians count
	Vs       []string      // subjects beside Tidegate, by name
	Delay    time.Duration // Tidegate's max_batch_delay
	Tidegate []string      // command that is Tidegate, to be followed by "run -c FILE"
	Profiles string        // folder for profiles of the subjects that have them; empty: none
	Progress func(string)  // told of what is under way; may be nil

	Context context.Context // whose end ends the measurement; nil: nothing does
}

// minSize has room for what comes before a stamp, and the stamp.
const minSize = 4 + minStamp

// Bounds of what is under way: half of what traffic keeps books of, and what one client may say before it is heard.
const (
	maxFlight = 1 << 14
	maxBurst  = 100
)

// ErrOptions is for Options that cannot be measured.
var ErrOptions = errors.New("cannot be measured")

func (o *Options) check() error {
	switch {
	case o.Sessions < 1 || o.Sessions > maxSessions:
		return fmt.Errorf("%d sessions: %w: want 1 to %d", o.Sessions, ErrOptions, maxSessions)
	case o.Grow != 0 && (o.Grow <= o.Sessions || o.Grow > maxSessions):
		return fmt.Errorf("to grow from %d sessions to %d: %w: want more, and at most %d", o.Sessions, o.Grow, ErrOptions,
			maxSessions)
	case o.Size < minSize || o.Size > 1200:
		return fmt.Errorf("datagrams of %d bytes: %w: want %d to 1200", o.Size, ErrOptions, minSize)
	case o.Flight < 0 || o.Flight > maxFlight || o.Burst < 0 || o.Burst > maxBurst:
		return fmt.Errorf("%d messages under way, %d at a time: %w: want at most %d and %d", o.Flight, o.Burst, ErrOptions,
			maxFlight, maxBurst)
	case o.Rounds < 1 || o.Window < 100*time.Millisecond:
		return fmt.Errorf("%d rounds of %v: %w: want at least 1 of 100ms", o.Rounds, o.Window, ErrOptions)
	}
	for _, name := range o.Vs {
		if !slices.ContainsFunc(others, func(k kind) bool { return k.name == name }) {
			return fmt.Errorf("%q: %w: want one of %v", name, ErrOptions, Names())
		}
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	return nil
}

func (o *Options) tell(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
