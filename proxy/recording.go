package proxy

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// Recording configures the black boxes of a Server. They keep the last datagrams of all sessions, so that events
// before a disconnect can be seen afterwards.
type Recording struct {
	Last   time.Duration // age of the oldest datagram that is kept; 0: nothing is recorded
	Memory int           // bytes, of all loops together; it may hold less than Last
	// Ended is called by the loops when an established session has ended in an abnormal way. It must not block. Nil: none.
	Ended func(Ended)
}

// Ended describes a session that has ended in an abnormal way.
type Ended struct {
	At       time.Time
	Session  SessionID
	Client   netip.AddrPort
	Listener string
	By       stats.Party
	Reason   codec.Reason
}

// Errors of Recorded.
var (
	ErrNotRecording    = errors.New("nothing is recorded: set record.last and restart")
	ErrNothingRecorded = errors.New("nothing recorded of this in that time")
)

// RecordFilter selects recorded datagrams. Empty fields select all.
type RecordFilter struct {
	Since   time.Time
	Session SessionID // also the datagrams of its client before the session began
	Client  netip.Prefix
	Peer    netip.AddrPort // the session's client, if it is known: the search is faster
}

// found is a record that a reader has chosen.
type found struct {
	recorded
	in *blackBox
}

// Recorded passes the recorded datagrams that f selects to take, in the order of time. It reads memory only, so it
// also works after Run has returned. A Catch is lent until take returns.
func (s *Server) Recorded(ctx context.Context, f RecordFilter, take func(*Catch) error) error {
	if len(s.boxes) == 0 {
		return ErrNotRecording
	}
	if oldest := time.Now().Add(-s.options.Recording.Last); f.Since.Before(oldest) {
		f.Since = oldest
	}
	var all []found
	for _, b := range s.boxes {
		all = append(all, b.choose(&f)...)
	}
	if len(all) == 0 {
		return ErrNothingRecorded
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.at.Compare(b.at) })
	return readOut(ctx, all, take)
}

// choose returns the records that a filter selects, the oldest first.
func (b *blackBox) choose(f *RecordFilter) (all []found) {
	client := f.Peer
	if f.Session != 0 && !client.IsValid() {
		b.find(f.Since, client, func(r recorded) bool {
			if r.session == f.Session {
				client = r.client
			}
			return r.session != f.Session
		})
		if !client.IsValid() {
			return nil
		}
	}
	b.find(f.Since, client, func(r recorded) bool {
		if f.selects(&r) {
			all = append(all, found{r, b})
		}
		return true
	})
	slices.Reverse(all)
	return all
}

func (f *RecordFilter) selects(r *recorded) bool {
	return (f.Session == 0 || r.session == f.Session || r.session == 0) &&
		(!f.Client.IsValid() || f.Client.Contains(r.client.Addr()))
}

// readOut passes records to take, in batches. It counts records that the loops have overwritten meanwhile.
func readOut(ctx context.Context, all []found, take func(*Catch) error) error {
	b := new(batch)
	for i := range all {
		if !all[i].in.read(all[i].place, b) {
			b.LeftOut.Clients++
		}
		if i%slice == 0 {
			runtime.Gosched() // a loop may wait for the lock
		}
		full := len(b.Captured) == maxSpoolCount || len(b.room) > maxSpool-codec.MaxDatagram
		if !full && i+1 < len(all) {
			continue
		}
		if err := errors.Join(ctx.Err(), take(&b.Catch)); err != nil {
			return err
		}
		b.room, b.Catch = b.room[:0], Catch{Captured: b.Captured[:0]}
	}
	return nil
}

// isAbnormal reports whether the end of a session is worth a look: all ends but goodbyes, and the end of the proxy.
// A relayed session has no goodbyes, so its silence is normal.
func isAbnormal(p *session, blame stats.Party, why codec.Reason) bool {
	switch {
	case !p.established, why == codec.Closed, why == codec.ServerStopped && blame == stats.ByProxy:
		return false
	}
	return !p.isRelayed() || why != codec.TimedOut
}

// abnormalEnds is told of sessions that end in an abnormal way. It may be nil.
type abnormalEnds func(Ended)

// tell reports the end of a session if it is abnormal.
func (report abnormalEnds) tell(now time.Time, e *entry, blame stats.Party, why codec.Reason) {
	p := &e.Value
	if report == nil || !isAbnormal(p, blame, why) {
		return
	}
	report(Ended{
		At: now, Session: p.serial, Client: e.Key.Client, Listener: p.listener.name, By: blame, Reason: why,
	})
}
