package fleet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"tidegate/internal/banfile"
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

// maxRecords bounds the networks that a node shares. Bans beyond it hold only at their node. A test lowers it.
var maxRecords = 200_000

// maxTexts bounds the texts of all records, in bytes. Further records of other nodes lose theirs. A test lowers it.
var maxTexts = 16 << 20

// banLedger is the ledger of bans. It finds this node's changes by surveys of the table.
type banLedger struct {
	ledger[netip.Prefix, *record]
	texts   int // bytes of the texts of entries
	turn    uint64
	started bool // the first survey has been made
}

func newBanLedger(node string) *banLedger {
	l := new(banLedger)
	l.ledger = newLedger(node, func(time.Time) bool { return len(l.entries) < maxRecords },
		func(old, new *record) { l.texts += new.texts() - old.texts() })
	return l
}

// survey finds the changes of a node's bans since the last survey, and forgets records that have ended. A ban that is
// found at the start was imposed at its own time.
func (l *banLedger) survey(now time.Time, bans *ratelimit.Bans) {
	l.turn++
	l.beyond = 0
	for ban := range bans.Active(now) {
		l.note(now, ban)
		if e := l.entries[ban.Prefix]; e != nil {
			e.turn = l.turn
		}
	}
	l.forget(now)
	for _, e := range l.entries {
		if e.turn != l.turn && !e.record.removed {
			l.noteRemoval(now, e.record)
		}
	}
	l.started = true
}

// look is survey for one network.
func (l *banLedger) look(now time.Time, p netip.Prefix, bans *ratelimit.Bans) {
	ban, ok := bans.Get(p)
	if ok && ban.Active(now) {
		l.note(now, &ban)
	} else if e := l.entries[p]; e != nil && !e.record.removed && e.record.lives(now) {
		l.noteRemoval(now, e.record)
	}
}

// note compares an active ban of this node with its entry.
func (l *banLedger) note(now time.Time, ban *ratelimit.Ban) {
	changed := now
	if !l.started {
		changed = ban.Since
	}
	fresh := record{ban: *ban, changed: changed, node: l.node}
	e := l.entries[ban.Prefix]
	switch {
	case !fresh.writable(), e == nil && len(l.entries) >= maxRecords:
		l.beyond++
		return
	case e == nil:
	case e.record.same(&fresh):
		return
	default:
		fresh.changed = later(now, e.record.changed)
	}
	kept := fresh // most surveys find no change, and allocate nothing
	l.change(&kept)
}

// noteRemoval records that an active ban is gone from this node.
func (l *banLedger) noteRemoval(now time.Time, r *record) {
	l.change(&record{
		ban: ratelimit.Ban{Prefix: r.ban.Prefix, Until: r.ban.Until}, removed: true, changed: later(now, r.changed),
		node: l.node,
	})
}

// fit takes the texts of a record of the bucket away if there is no room for them. A rogue member can write texts of a
// kilobyte into all records, and each node keeps them.
func (l *banLedger) fit(r *record) {
	room := maxTexts - l.texts
	if e := l.entries[r.ban.Prefix]; e != nil {
		room += e.record.texts()
	}
	if r.texts() <= room {
		return
	}
	if r.ban.Reason, r.node = "", ""; r.ban.Author != ratelimit.Automatic {
		r.ban.Author = ""
	}
}

// maxRecord bounds a record in the bucket, in bytes. The longest reason and author take up to 12 KiB with every byte
// escaped.
const maxRecord = 16 << 10

// removalMemory bounds the time for which the bucket keeps a removal. A node that is away for longer may bring the
// removed ban back.
const removalMemory = 30 * 24 * time.Hour

// skew is the largest difference between the clocks of two nodes that has no effect. The bucket keeps a record for this
// long after its end, so that a node whose clock is late does not write an ended ban again.
const skew = 5 * time.Minute

// longest is the longest ban that the bucket ends by itself.
const longest = 10 * 366 * 24 * time.Hour

var (
	errSize = fmt.Errorf("more than %d bytes", maxRecord)
	errKey  = errors.New("the key is not that of the network")
)

// record is the last change of a network's ban: imposed, or removed.
type record struct {
	ban     ratelimit.Ban // of a removed ban: the network, and the end of the ban
	removed bool
	changed time.Time
	node    string // the node of the change
}

// wire is the form of a record in the bucket. Readers ignore fields that they do not know.
type wire struct {
	banfile.Record
	Removed bool      `json:"removed,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
	Node    string    `json:"node,omitempty"`
}

// keyOf returns a network's key in the bucket, for example c0000200/24: the address in hexadecimal digits, since a
// key must not contain a colon.
func keyOf(p netip.Prefix) string {
	return hex.EncodeToString(p.Addr().AsSlice()) + "/" + strconv.Itoa(p.Bits())
}

// parseKey returns the network of a key.
func parseKey(key string) (netip.Prefix, error) {
	digits, bits, _ := strings.Cut(key, "/")
	raw, err := hex.DecodeString(digits)
	addr, ok := netip.AddrFromSlice(raw)
	n, bad := strconv.Atoi(bits)
	p := netip.PrefixFrom(addr, n)
	if err != nil || !ok || bad != nil || !p.IsValid() || ratelimit.Masked(p) != p || keyOf(p) != key {
		return netip.Prefix{}, errKey
	}
	return p, nil
}

func (r *record) key() string { return keyOf(r.ban.Prefix) }

func (r *record) id() netip.Prefix { return r.ban.Prefix }

func (r *record) made() (node string, at time.Time) { return r.node, r.changed }

// format returns a record as the bucket has it.
func (r *record) format() ([]byte, error) {
	w := wire{Record: banfile.RecordOf(r.ban), Removed: r.removed, Changed: r.changed.UTC(), Node: r.node}
	return json.Marshal(&w)
}

// parse reads a record of the bucket. Its sender may be hostile: all parts are checked and bounded. A change in the
// future counts as made now.
func parseBan(key string, value []byte, now time.Time) (*record, error) {
	if len(value) > maxRecord {
		return nil, errSize
	}
	p, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	var w wire
	if err := json.Unmarshal(value, &w); err != nil {
		return nil, err
	}
	ban, err := w.Ban()
	if err != nil {
		return nil, err
	}
	if ban.Prefix != p {
		return nil, errKey
	}
	changed := w.Changed.UTC()
	if changed.After(now) {
		changed = now
	}
	r := &record{ban, w.Removed, changed, banfile.Cut(w.Node)}
	if !r.writable() {
		return nil, errTime
	}
	return r, nil
}

// writable reports whether all times of a record have a form in JSON. A time zone can move them out of its years.
func (r *record) writable() bool {
	return !slices.ContainsFunc([]time.Time{r.ban.Since, r.ban.Until, r.changed}, func(t time.Time) bool {
		year := t.UTC().Year()
		return year < 0 || year > 9999
	})
}

// end returns the time from which a record has no effect. The zero time means never.
func (r *record) end() time.Time {
	if !r.removed {
		return r.ban.Until
	}
	end := r.changed.Add(removalMemory)
	if until := r.ban.Until; !until.IsZero() && until.Before(end) {
		end = until
	}
	return end
}

// lives reports whether a record still has an effect.
func (r *record) lives(now time.Time) bool {
	end := r.end()
	return end.IsZero() || now.Before(end)
}

// timeToLive is the time for which the bucket keeps a record, in whole seconds. Zero means forever.
func (r *record) timeToLive(now time.Time) time.Duration {
	end := r.end()
	if end.IsZero() {
		return 0
	}
	left := end.Sub(now)
	if left > longest {
		return 0
	}
	return max(0, left).Truncate(time.Second) + skew
}

// texts returns the size of the record's texts in bytes; nil has none.
func (r *record) texts() int {
	if r == nil {
		return 0
	}
	n := len(r.ban.Reason) + len(r.node)
	if r.ban.Author != ratelimit.Automatic {
		n += len(r.ban.Author)
	}
	return n
}

// same reports whether two records have the same effect.
func (r *record) same(o *record) bool {
	a, b := &r.ban, &o.ban
	return r.removed == o.removed && a.Prefix == b.Prefix && a.Until.Equal(b.Until) &&
		(r.removed || banfile.Cut(a.Reason) == banfile.Cut(b.Reason) && banfile.Cut(a.Author) == banfile.Cut(b.Author) &&
			a.Since.Equal(b.Since) && a.Times == b.Times)
}

func (r *record) beats(stored *record, now time.Time) bool {
	if !r.removed && !stored.removed {
		if mine, theirs := r.byOperator(now), stored.byOperator(now); mine != theirs {
			return mine
		}
	}
	if c := r.changed.Compare(stored.changed); c != 0 {
		return c > 0
	}
	if r.removed != stored.removed {
		return stored.removed
	}
	// The longer one. A ban without an end is the longest.
	until, other := r.ban.Until, stored.ban.Until
	return !other.IsZero() && (until.IsZero() || until.After(other))
}

// byOperator reports whether a record is a ban in force that Tidegate has not imposed by itself.
func (r *record) byOperator(now time.Time) bool {
	return !r.removed && r.ban.Author != ratelimit.Automatic && r.ban.Active(now)
}
