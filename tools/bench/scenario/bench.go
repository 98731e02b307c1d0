// Package scenario measures Tidegate and the programs that its users might use instead. One run measures all of them in
// turn, so that other load of the machine affects all alike. Ratios within one run are therefore reliable; single
// figures of different runs are not.
//
// Start with Forward, the simplest scenario, and with the type scenario. A subject is one measured program in front of
// a game server. Clients and game server share a process that is pinned to one core, and the subject has another core.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options configure a measurement.
type Options struct {
	Sessions int           // clients, each at its own address
	Idle     int           // further relayed sessions without traffic, in Upgrade
	Grow     int           // Tidegate's setups are measured with this number of clients too, in the same rounds; 0: not
	Size     int           // bytes of each datagram or message, at least minSize
	Ticks    int           // a second, in Ticks
	State    int           // bytes of each state that the server sends, in Ticks
	From, To string        // protocols of clients and server, where Tidegate terminates connections
	Rate     int           // messages a second from the clients, on a fixed timetable; 0: as many as return
	Flight   int           // messages in flight where there is no timetable; 0: messagesInFlight
	Burst    int           // messages that a client sends at once; 0: one
	Window   time.Duration // of one measurement
	Rounds   int           // measurements of each subject; their medians count
	Vs       []string      // names of subjects beside Tidegate
	Delay    time.Duration // Tidegate's max_batch_delay
	Loops    int           // Tidegate's loops, on one core; 0: one
	Messages int           // that the server sends, in Bulk
	Peer     string        // program that transfers messages in Bulk; empty: none
	Path     time.Duration // that a datagram takes between clients and subject, each way, in Join and Bulk
	Loss     float64       // share of datagrams that this path loses, each way
	Tidegate []string      // command that runs Tidegate, before "run -c FILE"
	Profiles string        // folder for profiles of the subjects that have profiles; empty: none
	Progress func(string)  // takes progress messages; may be nil

	Context context.Context // its end ends the measurement; nil: it never ends
}

// maxSize fits into one datagram of every protocol.
const maxSize = 1200

// minSize has room for a stamp and the head of most forms. A larger head makes the smallest messages a byte longer.
const minSize = 4 + minStamp

// Bounds of messages in flight, half of the capacity of traffic, and of a burst.
const (
	maxFlight = 1 << 14
	maxBurst  = 100
)

const maxLoops = 64

// Bounds of the path of Join and Bulk.
const (
	maxPath     = time.Second
	maxPathLoss = 0.5
)

// ErrOptions is the error for invalid Options.
var ErrOptions = errors.New("cannot be measured")

func (o *Options) check() error {
	switch {
	case o.Sessions < 1 || o.Sessions > maxSessions:
		return fmt.Errorf("%d sessions: %w: want 1 to %d", o.Sessions, ErrOptions, maxSessions)
	case o.Idle < 0 || o.Idle > maxSessions:
		return fmt.Errorf("%d idle sessions: %w: want 0 to %d", o.Idle, ErrOptions, maxSessions)
	case o.Grow != 0 && (o.Grow <= o.Sessions || o.Grow > maxSessions):
		return fmt.Errorf("growth from %d sessions to %d: %w: want more, and at most %d", o.Sessions, o.Grow, ErrOptions,
			maxSessions)
	case o.Size < minSize || o.Size > maxSize:
		return fmt.Errorf("datagrams of %d bytes: %w: want %d to %d", o.Size, ErrOptions, minSize, maxSize)
	case o.Flight < 0 || o.Flight > maxFlight || o.Burst < 0 || o.Burst > maxBurst:
		return fmt.Errorf("%d messages in flight, %d at once: %w: want at most %d and %d", o.Flight, o.Burst, ErrOptions,
			maxFlight, maxBurst)
	case o.Path < 0 || o.Path > maxPath || !(o.Loss >= 0 && o.Loss <= maxPathLoss):
		return fmt.Errorf("a path of %v that loses %v: %w: want at most %v and %v", o.Path, o.Loss, ErrOptions, maxPath,
			maxPathLoss)
	case o.Loops < 0 || o.Loops > maxLoops:
		return fmt.Errorf("%d loops: %w: want at most %d", o.Loops, ErrOptions, maxLoops)
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

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
