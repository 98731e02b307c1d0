// Package captures passes copies of a running proxy's datagrams to readers: as they pass, and from its black boxes.
package captures

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/session"
)

// Errors of Capture and Recorded.
var (
	ErrCaptures        = errors.New("as many captures as there may be at a time are running")
	ErrNotRecording    = errors.New("nothing is recorded: set record.last and restart")
	ErrNothingRecorded = errors.New("nothing recorded of this in that time")
)

// mostCaptures bounds the captures that run at a time. Each takes up to MaxSpool of memory per loop, twice.
const mostCaptures = 4

// sessionLook is how often a capture of one session checks that the session still exists.
const sessionLook = time.Second

// Captures takes datagrams of one Server. It is safe for concurrent use.
type Captures struct {
	server   *proxy.Server
	recorder *recording.Recorder
	last     time.Duration
	running  atomic.Int32
}

// New returns the Captures of a Server. recorder is that of its Options; nil: nothing is recorded. last is the age of
// the oldest datagram that is kept.
func New(s *proxy.Server, recorder *recording.Recorder, last time.Duration) *Captures {
	return &Captures{server: s, recorder: recorder, last: last}
}

// Capture passes all datagrams that f selects to take, first an empty Catch once every loop captures. It ends without
// an error when ctx is done, the proxy has ended, or the session that f names has ended. A Catch is lent until take
// returns. Meanwhile the kernel does not forward the captured sessions.
func (c *Captures) Capture(ctx context.Context, f recording.CaptureFilter, take func(*recording.Catch) error) error {
	if f.Session != 0 { // a capture of an ended session would stay empty
		if err := c.server.Ask(ctx, &relay.ShowSession{ID: f.Session}); err != nil {
			return err
		}
	}
	if err := c.server.Has(f.Route, f.Upstream); err != nil {
		return err
	}
	if c.running.Add(1) > mostCaptures {
		c.running.Add(-1)
		return ErrCaptures
	}
	defer c.running.Add(-1)
	spools := recording.NewCapture(&f, c.server.Loops())
	defer func() { c.server.Begin(relay.EndCapture(spools)) }() // also in a loop that does not have it yet
	if err := c.server.Ask(ctx, relay.StartCapture(spools)); err != nil {
		return err
	}
	if err := take(new(recording.Catch)); err != nil {
		return err
	}
	return c.collect(ctx, f.Session, spools, take)
}

// collect takes what the loops have captured, until the capture ends.
func (c *Captures) collect(ctx context.Context, id session.ID, spools *recording.Capture,
	take func(*recording.Catch) error) error {
	ctx, stop := c.server.UntilEnded(ctx)
	defer stop()
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for over := false; ; {
		if err := spools.Take(take); err != nil || over {
			return err
		}
		select {
		case <-spools.Ready:
		case <-ctx.Done():
			over = true
		case <-look.C:
			if id != 0 {
				over = errors.Is(c.server.Ask(ctx, &relay.ShowSession{ID: id}), relay.ErrNoSession)
			}
		}
	}
}

// Recorded passes the recorded datagrams that f selects to take, in the order of time. It reads memory only, so it
// also works after the proxy has ended. A Catch is lent until take returns.
func (c *Captures) Recorded(ctx context.Context, f recording.RecordFilter, take func(*recording.Catch) error) error {
	if c.recorder == nil {
		return ErrNotRecording
	}
	if oldest := time.Now().Add(-c.last); f.Since.Before(oldest) {
		f.Since = oldest
	}
	found, err := c.recorder.Read(&f, func(one *recording.Catch) error { return errors.Join(ctx.Err(), take(one)) })
	if err == nil && !found {
		return ErrNothingRecorded
	}
	return err
}
