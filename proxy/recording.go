package proxy

import (
	"context"
	"errors"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
)

// Recording configures the black boxes of a Server. They keep the last datagrams of all sessions, so that events
// before a disconnect can be seen afterwards.
type Recording struct {
	Last   time.Duration // age of the oldest datagram that is kept; 0: nothing is recorded
	Memory int           // bytes, of all loops together; it may hold less than Last
	// Ended is called by the loops when an established session has ended in an abnormal way. It must not block. Nil: none.
	Ended func(relay.Ended)
}

// Errors of Recorded.
var (
	ErrNotRecording    = errors.New("nothing is recorded: set record.last and restart")
	ErrNothingRecorded = errors.New("nothing recorded of this in that time")
)

// Recorded passes the recorded datagrams that f selects to take, in the order of time. It reads memory only, so it
// also works after Run has returned. A Catch is lent until take returns.
func (s *Server) Recorded(ctx context.Context, f recording.RecordFilter, take func(*recording.Catch) error) error {
	if s.recorder == nil {
		return ErrNotRecording
	}
	if oldest := time.Now().Add(-s.options.Recording.Last); f.Since.Before(oldest) {
		f.Since = oldest
	}
	found, err := s.recorder.Read(&f, func(c *recording.Catch) error { return errors.Join(ctx.Err(), take(c)) })
	if err == nil && !found {
		return ErrNothingRecorded
	}
	return err
}
