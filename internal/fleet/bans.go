package fleet

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/fleet/view"
	"tidegate/ratelimit"
)

// bans shares the bans of this node.
type bans struct {
	bucketSync[netip.Prefix, *record]
	table   *ratelimit.Bans
	ledger  *banLedger
	imposed <-chan struct{} // the table has changed
}

// Ban is a ban that the fleet knows.
type Ban struct {
	ratelimit.Ban
	Node string // where it was imposed
}

func newBans(self identity, replicas int, table *ratelimit.Bans) *bans {
	b := &bans{table: table, ledger: newBanLedger(self.node), imposed: table.Subscribe()}
	b.bucketSync = bucketSync[netip.Prefix, *record]{
		identity: self, content: content{"bans", "bans", replicas, 512 << 20, maxRecord},
		parseKey: parseKey, parse: parseBan, ledger: &b.ledger.ledger,
		merge: b.merge, complete: func(time.Time) {},
		survey: func(now time.Time) { b.ledger.survey(now, b.table) },
	}
	b.prepare()
	return b
}

// merge takes a record of the bucket.
func (b *bans) merge(now time.Time, r *record, revision uint64) bool {
	p := r.ban.Prefix
	b.ledger.fit(r)
	b.ledger.look(now, p, b.table)
	applied := b.ledger.take(now, r, revision)
	if applied && r.removed {
		b.table.Remove(p)
	} else if applied {
		b.table.Add(r.ban)
	}
	return applied
}

// surveyEvery is the interval of surveys without a change. They forget records that have ended.
const surveyEvery = time.Minute

// start shares bans until ctx is done, also those of the file. The function that it returns waits for the end.
func (b *bans) start(ctx context.Context, connection *nats.Conn) (wait func()) {
	b.do(func() { b.survey(time.Now()) })
	watched, shared := runs(func() { b.watch(ctx) }), b.bucketSync.start(ctx, connection)
	return func() {
		shared()
		watched()
	}
}

// watch surveys the table after its changes. All surveys together use at most a fifth of a core.
func (b *bans) watch(ctx context.Context) {
	next := time.NewTimer(surveyEvery)
	defer next.Stop()
	for planned, rested := false, time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-b.imposed:
			if !planned {
				planned = true
				next.Reset(time.Until(rested))
			}
		case <-next.C:
			began := time.Now()
			b.do(func() { b.survey(began) })
			signal(b.changed)
			planned, rested = false, time.Now().Add(4*time.Since(began))
			next.Reset(surveyEvery)
		}
	}
}

// inForce returns the bans in force, by network.
func (b *bans) inForce(now time.Time) (all []Ban) {
	b.do(func() {
		for _, e := range b.ledger.entries {
			if r := e.record; !r.removed && r.ban.Active(now) {
				all = append(all, Ban{r.ban, r.node})
			}
		}
	})
	slices.SortFunc(all, func(a, b Ban) int { return a.Prefix.Compare(b.Prefix) })
	return all
}

func (b *bans) addTo(s *view.Fleet) {
	b.do(func() {
		b.bucketSync.addTo(s)
		s.Bans, s.Lag = len(b.ledger.entries), b.status.lag.Round(time.Microsecond).Seconds()
	})
}
