package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"tidegate/internal/fleet/view"
)

var (
	errLost    = errors.New("no connection to NATS")
	errRefused = errors.New("the bucket refuses changes for another reason than a newer one")
)

// bucketSync keeps the changes of this node and the records of a bucket equal.
type bucketSync[K comparable, R mergeable[K, R]] struct {
	identity
	content
	parseKey func(key string) (K, error)
	parse    func(key string, value []byte, now time.Time) (R, error)
	// The sync calls these with the lock: merge takes a record of the bucket, and reports whether it replaces the node's
	// own. survey notes changes of which no call has told. complete follows the reading of the whole bucket.
	merge            func(now time.Time, r R, revision uint64) bool
	survey, complete func(now time.Time)
	cause            func(error) error // explains an error better

	changed chan struct{} // the node has an open change
	news    chan struct{} // the connection to NATS has changed

	mu     sync.Mutex // never held across I/O
	ledger *ledger[K, R]
	status syncStatus
}

type syncStatus struct {
	current                 bool
	err                     string
	received, sent, invalid uint64
	lag                     time.Duration // of the last change at another node
}

// prepare makes the channels.
func (s *bucketSync[K, R]) prepare() {
	s.changed, s.news = make(chan struct{}, 1), make(chan struct{}, 1)
}

func (s *bucketSync[K, R]) tell() { signal(s.news) }

// do runs a function with the lock.
func (s *bucketSync[K, R]) do(with func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	with()
}

// addTo adds the state of the bucket to that of others.
func (s *bucketSync[K, R]) addTo(to *view.Fleet) {
	of := &s.status
	to.Current = to.Current && of.current
	to.Error = cmp.Or(to.Error, of.err)
	to.Waiting += len(s.ledger.open)
	to.Beyond += int(s.ledger.beyond)
	to.Conflicts += s.ledger.conflicts
	to.Received += of.received
	to.Sent += of.sent
	to.Invalid += of.invalid
}

// start shares changes until ctx is done. The function that it returns waits for the end.
func (s *bucketSync[K, R]) start(ctx context.Context, connection *nats.Conn) (wait func()) {
	return runs(func() {
		for {
			err := errLost
			if connection.IsConnected() {
				err = s.share(ctx, connection)
			}
			if ctx.Err() != nil {
				return
			}
			s.report(err)
			select {
			case <-ctx.Done():
			case <-s.news:
			case <-time.After(retryEvery):
			}
		}
	})
}

// report logs an error if it is another one than the last.
func (s *bucketSync[K, R]) report(err error) {
	err = s.cause(err)
	s.mu.Lock()
	last := s.status.err
	s.status.current, s.status.err = false, err.Error()
	s.mu.Unlock()
	if err.Error() != last {
		s.log.Warn().Err(err).Msg(s.what + " not shared with the fleet; those in force stay")
	}
}

// share keeps both equal until an error.
func (s *bucketSync[K, R]) share(ctx context.Context, connection *nats.Conn) error {
	b, err := openBucket(ctx, connection, s.fleet, s.content)
	if err != nil {
		return err
	}
	defer b.close()
	s.do(func() {
		s.ledger.begin()
		s.survey(time.Now())
	})
	check := time.NewTicker(retryEvery)
	defer check.Stop()
	for read, current, stuck := uint64(0), false, false; ; {
		if !current && read >= b.pending { // all records that the bucket had
			current = true
			s.arrive(connection)
		}
		if current {
			if err := s.send(ctx, b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			if current {
				s.sendLast(b)
			}
			return ctx.Err()
		case <-s.news:
			if !connection.IsConnected() {
				return errLost
			}
		case err := <-b.failed:
			return err
		case u := <-b.updates:
			s.receive(u, current)
			read++
		case <-s.changed:
		case <-check.C:
			waiting := current && s.waiting() > 0
			if waiting && stuck {
				return errRefused
			}
			stuck = waiting
		}
	}
}

// arrive says that the node has read the whole bucket.
func (s *bucketSync[K, R]) arrive(connection *nats.Conn) {
	records := 0
	s.do(func() {
		s.ledger.end(time.Now())
		s.complete(time.Now())
		s.status.current, s.status.err = true, ""
		records = len(s.ledger.entries)
	})
	s.log.Info().Str("server", connection.ConnectedServerName()).Int("records", records).Int("waiting", s.waiting()).
		Msg(s.what + " shared with the fleet")
}

func (s *bucketSync[K, R]) waiting() (n int) {
	s.do(func() { n = len(s.ledger.open) })
	return n
}

// receive merges one update of the bucket.
func (s *bucketSync[K, R]) receive(u *update, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k, err := s.parseKey(u.key)
	if err == nil && u.deleted {
		s.ledger.gone(now, k, u.revision)
		return
	}
	r, err := s.parse(u.key, u.value, now)
	if err != nil {
		s.status.invalid++
		s.refuse("record of "+s.what, u.key, s.status.invalid, err)
		s.ledger.gone(now, k, u.revision) // this node's record replaces it
		return
	}
	applied := s.merge(now, r, u.revision)
	if node, at := r.made(); node != s.node {
		s.status.received++
		if live && applied {
			s.status.lag = lagOf(at, now)
		}
	}
}

// send writes this node's changes to the bucket. A change that the bucket refuses is merged with the newer record.
func (s *bucketSync[K, R]) send(ctx context.Context, b *bucket) error {
	for {
		var writes []write[R]
		s.do(func() { writes = s.ledger.writes() })
		if len(writes) == 0 {
			return nil
		}
		err := put(ctx, b, writes)
		s.do(func() {
			for i := range writes {
				s.ledger.written(&writes[i])
				if writes[i].err == nil {
					s.status.sent++
				}
			}
		})
		if err != nil {
			return err
		}
		for _, w := range writes {
			if w.err == nil {
				continue
			}
			newer, err := b.last(ctx, w.record.key())
			if err != nil {
				return err
			}
			s.receive(newer, true)
		}
	}
}

// sendLast sends the changes of the last moments before the end.
func (s *bucketSync[K, R]) sendLast(b *bucket) {
	ctx, cancel := context.WithTimeout(context.Background(), lastChances)
	defer cancel()
	s.do(func() { s.survey(time.Now()) })
	if err := s.send(ctx, b); err != nil {
		s.log.Warn().Err(err).Int("changes", s.waiting()).Msg("last changes of " + s.what + " not shared")
	}
}

// pending returns the ledger's changes, for a successor: the open ones, or all.
func (s *bucketSync[K, R]) pending(all bool) (changes []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.ledger.entries {
		_, open := s.ledger.open[k]
		if !open && !all || len(changes) >= maxChanges {
			continue
		}
		if value, err := e.record.format(); err == nil {
			changes = append(changes, Change{e.record.key(), value, !open})
		}
	}
	return changes
}

// inherit takes the changes of a predecessor. A change of another form, which this release does not know, is left out.
func (s *bucketSync[K, R]) inherit(now time.Time, all []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		r, err := s.parse(c.Key, c.Value, now)
		switch {
		case err != nil || !r.lives(now):
		case c.Known:
			s.ledger.put(r)
		default:
			s.ledger.change(r)
		}
	}
}

// lagOf returns the time from a change until now, by the clocks of two nodes. A rogue member may claim any time.
func lagOf(changed, now time.Time) time.Duration { return min(max(0, now.Sub(changed)), maxLag) }

// maxLag is the longest lag that is shown.
const maxLag = 24 * time.Hour

// mergeable is a record of a bucket: the last change of a thing that K names. No record is altered after its creation.
type mergeable[K comparable, R any] interface {
	comparable
	storable
	id() K
	made() (node string, at time.Time)
	lives(now time.Time) bool // it still has an effect
	same(other R) bool        // both have the same effect
	// beats reports whether a change of this node that the bucket does not have yet replaces the bucket's record. The
	// rule of conflicts is in docs/fleet/faults.md.
	beats(stored R, now time.Time) bool
}

// entry is a node's knowledge of one thing.
type entry[R any] struct {
	record   R
	revision uint64 // of the bucket's record; 0: the bucket has none
	turn     uint64 // the last survey that found the record in force
	refused  bool   // the bucket has a newer record, which has not arrived yet
}

// ledger merges the changes of this node with those of a bucket. It has no I/O and no clock. The bucket's order
// decides, except for open: changes of this node that the bucket does not have yet.
type ledger[K comparable, R mergeable[K, R]] struct {
	node    string
	entries map[K]*entry[R]
	open    map[K]struct{}
	hasRoom func(now time.Time) bool // for a further entry
	follow  func(old, new R)         // an entry changes its record; old may be zero

	conflicts uint64 // changes that met another node's change of the same
	beyond    uint64 // changes without room
}

func newLedger[K comparable, R mergeable[K, R]](node string, hasRoom func(time.Time) bool,
	follow func(old, new R)) ledger[K, R] {
	return ledger[K, R]{
		node: node, entries: make(map[K]*entry[R]), open: make(map[K]struct{}), hasRoom: hasRoom, follow: follow,
	}
}

// put replaces the record of an entry, or adds the entry.
func (l *ledger[K, R]) put(r R) *entry[R] {
	e := l.entries[r.id()]
	if e == nil {
		e = new(entry[R])
		l.entries[r.id()] = e
	}
	old := e.record
	e.record = r
	l.follow(old, r)
	return e
}

// change puts a change of this node.
func (l *ledger[K, R]) change(r R) {
	l.put(r)
	l.open[r.id()] = struct{}{}
}

// forget forgets entries without effect.
func (l *ledger[K, R]) forget(now time.Time) {
	for k, e := range l.entries {
		if !e.record.lives(now) {
			var none R
			l.follow(e.record, none)
			delete(l.entries, k)
			delete(l.open, k)
		}
	}
}

// take merges a record of the bucket. It reports whether the record replaces the node's own.
func (l *ledger[K, R]) take(now time.Time, r R, revision uint64) bool {
	k := r.id()
	if !r.lives(now) {
		l.gone(now, k, revision)
		return false
	}
	e := l.entries[k]
	if e == nil {
		if !l.hasRoom(now) {
			l.beyond++
			return false
		}
		l.put(r).revision = revision
		return true
	}
	if revision <= e.revision {
		return false // written by this node
	}
	e.revision, e.refused = revision, false
	differs := !e.record.same(r)
	if _, open := l.open[k]; open && differs {
		l.conflicts++
		if e.record.beats(r, now) {
			return false
		}
	}
	delete(l.open, k)
	l.put(r)
	return differs
}

// gone says that the bucket has no valid record of a key: it has ended, or another program has changed it. A record of
// this node that still has an effect is written again. Revision 0 means that the bucket has forgotten the key.
func (l *ledger[K, R]) gone(now time.Time, k K, revision uint64) {
	e := l.entries[k]
	if e == nil || revision != 0 && revision <= e.revision {
		return
	}
	e.revision, e.refused = revision, false
	if e.record.lives(now) {
		l.open[k] = struct{}{}
	}
}

// writes returns a batch of this node's changes.
func (l *ledger[K, R]) writes() (all []write[R]) {
	for k := range l.open {
		if e := l.entries[k]; !e.refused && len(all) < batch {
			all = append(all, write[R]{record: e.record, revision: e.revision})
		}
	}
	return all
}

// written notes the bucket's answer to a change. The node may have changed it again meanwhile.
func (l *ledger[K, R]) written(w *write[R]) {
	k := w.record.id()
	e := l.entries[k]
	switch {
	case e == nil:
	case w.err != nil:
		e.refused = true // until another revision arrives
	case w.revision > e.revision: // else the reader was faster
		e.revision = w.revision
		if e.record == w.record {
			delete(l.open, k)
		}
	}
}

// begin starts a reading of the whole bucket, which may be a new one.
func (l *ledger[K, R]) begin() {
	l.beyond = 0
	for _, e := range l.entries {
		e.revision, e.refused = 0, false
	}
}

// end completes the reading. Records that the bucket lacks are written again.
func (l *ledger[K, R]) end(now time.Time) {
	for k, e := range l.entries {
		if e.revision == 0 && e.record.lives(now) {
			l.open[k] = struct{}{}
		}
	}
}

// later returns a time after the change that is replaced. So a node whose clock is late can change a record that it
// knows.
func later(now, replaced time.Time) time.Time {
	if now.After(replaced) {
		return now
	}
	return replaced.Add(1)
}

// maxChanges bounds the records of each kind that a successor gets.
const maxChanges = 10_000

// Change is a record of a bucket, or one that it will have.
type Change struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	Known bool            `json:"known,omitempty"` // the bucket has it
}
