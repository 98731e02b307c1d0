package fleet

import (
	"context"
	"encoding/json"
	"time"
)

// maxChanges bounds the records of each kind that a successor gets.
const maxChanges = 10_000

// Pending is what a successor has to know of the buckets while NATS is away. It has the bans in force of its node. From
// these it does not know which bans have been removed, and which drains an operator may end.
type Pending struct {
	Bans   []Change `json:"bans,omitempty"`   // that the bucket does not have yet
	Drains []Change `json:"drains,omitempty"` // all
	// Players are those of other nodes.
	Players []NodePlayers `json:"players,omitempty"`
}

// Change is a record of a bucket, or one that it will have.
type Change struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	Known bool            `json:"known,omitempty"` // the bucket has it
}

// Pending returns what a successor has to know. It waits for the fleet's goroutine, or until ctx is done.
func (f *Fleet) Pending(ctx context.Context) (all Pending, err error) {
	err = f.ask(ctx, func() {
		for p := range f.ledger.open {
			all.Bans = appendChange(all.Bans, &f.ledger.entries[p].record, false)
		}
	})
	all.Players = f.players.pending(ctx)
	if d := f.drains; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		for s, e := range d.ledger.entries {
			_, open := d.ledger.open[s]
			all.Drains = appendChange(all.Drains, &e.drainRecord, !open)
		}
	}
	return all, err
}

func appendChange(all []Change, r storable, known bool) []Change {
	if value, err := r.format(); err == nil && len(all) < maxChanges {
		all = append(all, Change{r.key(), value, known})
	}
	return all
}

// inherit takes the records of a predecessor.
func (f *Fleet) inherit(now time.Time, from Pending) {
	for _, c := range from.Bans {
		if r, err := parse(c.Key, c.Value, now); err == nil && r.lives(now) {
			f.ledger.entries[r.ban.Prefix] = &entry{record: r}
			f.ledger.open[r.ban.Prefix] = struct{}{}
		}
	}
	if f.drains == nil {
		return
	}
	l := &f.drains.ledger
	for _, c := range from.Drains {
		if r, err := parseDrain(c.Key, c.Value, now); err == nil && r.lives(now) {
			l.entries[r.server] = &drainEntry{drainRecord: r}
			if !c.Known {
				l.open[r.server] = struct{}{}
			}
			l.apply(l.entries[r.server])
		}
	}
}
