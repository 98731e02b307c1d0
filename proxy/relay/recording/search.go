package recording

import (
	"net/netip"
	"runtime"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/session"
)

// RecordFilter selects recorded datagrams. Empty fields select all.
type RecordFilter struct {
	Since   time.Time
	Session session.ID // also the datagrams of its client before the session began
	Client  netip.Prefix
	Peer    netip.AddrPort // the session's client, if it is known: the search is faster
}

// Found is a record that a reader has chosen.
type Found struct {
	recorded
	in *BlackBox
}

// Choose returns the records that a filter selects, the oldest first.
func (b *BlackBox) Choose(f *RecordFilter) (all []Found) {
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
			all = append(all, Found{r, b})
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

// Recorder has the black boxes of all loops.
type Recorder struct{ boxes []*BlackBox }

// NewRecorder returns a recorder for so many loops, which share size bytes.
func NewRecorder(loops, size int) *Recorder {
	r := &Recorder{make([]*BlackBox, loops)}
	for i := range r.boxes {
		r.boxes[i] = NewBlackBox(size / loops)
	}
	return r
}

// Box returns a loop's black box.
func (r *Recorder) Box(loop int) *BlackBox { return r.boxes[loop] }

// Read passes the recorded datagrams that a filter selects to take, in the order of time, and reports whether there are
// any. A Catch is lent until take returns.
func (r *Recorder) Read(f *RecordFilter, take func(*Catch) error) (found bool, err error) {
	var all []Found
	for _, b := range r.boxes {
		all = append(all, b.Choose(f)...)
	}
	return len(all) > 0, ReadOut(all, take)
}

// ReadOut passes records to take in the order of time, in batches. It counts records that the loops have overwritten
// meanwhile.
func ReadOut(all []Found, take func(*Catch) error) error {
	slices.SortStableFunc(all, func(a, b Found) int { return a.at.Compare(b.at) })
	b := new(Batch)
	for i := range all {
		if !all[i].in.read(all[i].place, b) {
			b.LeftOut.Clients++
		}
		if i%slice == 0 {
			runtime.Gosched() // a loop may wait for the lock
		}
		full := len(b.Captured) == maxSpoolCount || len(b.room) > MaxSpool-codec.MaxDatagram
		if !full && i+1 < len(all) {
			continue
		}
		if err := take(&b.Catch); err != nil {
			return err
		}
		b.room, b.Catch = b.room[:0], Catch{Captured: b.Captured[:0]}
	}
	return nil
}
