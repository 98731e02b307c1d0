package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// A session can travel to another Server, in another process or on another machine. TakeOut removes it here and
// returns it as bytes. PutIn gives the bytes to the other Server, where the session waits until its client's next
// datagram arrives.

// TakeOut removes an established session without a goodbye, and returns it for PutIn. The session is gone from this
// Server then: after a failure elsewhere, PutIn can give it back. ErrNotMovable names the reason why a session stays.
func (s *Server) TakeOut(ctx context.Context, id sessions.ID) ([]byte, error) {
	var claimed atomic.Bool // by the loop, or by this function if ctx ends first
	var taken []byte
	done := make(chan struct{})
	err := s.atHome(ctx, id, func(r *relay.Relay, now time.Time, e *relay.Entry) (err error) {
		if !claimed.CompareAndSwap(false, true) {
			return ErrStopped // nothing would receive the session
		}
		defer close(done)
		taken, err = r.TakeOut(now, e)
		return err
	})
	if err != nil && !claimed.CompareAndSwap(false, true) {
		if <-done; taken != nil { // the loop was faster than the end of ctx
			return taken, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// Record returns the whole state of a session as values for JSON, without secrets and payloads.
func (s *Server) Record(ctx context.Context, id sessions.ID) (state map[string]any, err error) {
	var b []byte
	err = s.atHome(ctx, id, func(r *relay.Relay, now time.Time, e *relay.Entry) (err error) {
		b, err = r.WriteDown(now, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return relay.DescribeRecord(b)
}

// PutIn takes in a session from TakeOut of this or another Server. The session goes on with the next datagram of its
// client. If that does not come within ArrivalTime, the session is lost.
func (s *Server) PutIn(ctx context.Context, b []byte) error {
	a, err := relay.ReadArrival(time.Now(), b)
	if err != nil {
		return err
	}
	var fault error
	err = s.loops[0].consult(ctx, stats.WorkMove, func(r *relay.Relay, now time.Time) {
		fault = a.Fits(now, r)
	})
	if err != nil {
		return err // the loop may still write the fault
	}
	if fault != nil {
		return fault
	}
	return s.arrivals.Add(time.Now(), a)
}
