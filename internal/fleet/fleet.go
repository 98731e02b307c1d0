// Package fleet shares the bans, the drains, the counts of sessions and the limits of several Tidegates by NATS. It is
// the only package that knows NATS. A node works on from its own state while NATS is away.
//
// Start with Start. ledger.go merges bans, and record.go is their form in the bucket. drains.go merges drains, and
// drain_record.go is their form. counts.go exchanges counts, account.go adds them up, and report.go is their form.
// players.go follows players whose path leads to another node: whereabouts.go knows which node has them, player_set.go
// is the form in which nodes tell that, elsewhere.go is for a successor, and outboxes.go has the datagrams that are
// passed on. budgets.go exchanges what sources have used of limits, and spending.go is the form.
// bucket.go talks to NATS, and embedded.go runs a NATS server in this process.
package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tidegate/ratelimit"
)

// Options configure a Fleet.
type Options struct {
	Name     string   // of the fleet
	Node     string   // this node's name, unique in the fleet
	Servers  []string // URLs of NATS servers
	Replicas int      // servers that keep the bucket

	Credentials, NKey    string // paths of files; empty: none
	CA, Certificate, Key string // paths of files in PEM; empty: none

	Embedded *Embedded // a server in this process, in place of Servers
	Bans     *ratelimit.Bans
	Games    GameServers // nil: drains and counts are not shared
	Players  Players     // nil: players are not followed
	Budgets  Budgets     // nil: limits are not shared
	Pending  Pending     // of a predecessor
	Held     *Held       // of this successor; nil: none
	Log      zerolog.Logger

	ReportEvery   time.Duration // at least, between two reports of the counts; 0: a quarter of a second
	SpendingEvery time.Duration // between two reports of limits; 0: a second
}

// Fleet is a node's part in a fleet. Status is safe for concurrent use.
type Fleet struct {
	Options
	ledger  *ledger
	changed <-chan struct{} // the bans of this node have changed
	news    chan struct{}   // the connection to NATS has changed
	asks    chan func()     // questions about the ledger
	ended   chan struct{}   // closed when nothing is shared any more
	survey  *time.Timer     // the next survey
	planned bool            // the next survey is due because of a change
	rested  time.Time       // earliest time of the next survey
	drains  *drains         // nil: not shared
	counts  *counts         // nil: not shared
	players *players        // nil: not followed
	budgets *budgets        // nil: not shared
	server  *embedded       // nil: none

	mu         sync.Mutex
	status     Status
	connection *nats.Conn // nil: not open yet
}

// Start joins the fleet. It does not wait for NATS. The function stop leaves the fleet, and waits until the last
// changes are sent or a short time has passed. An error means that a file of Options cannot be used.
func Start(o Options) (f *Fleet, stop func(), err error) {
	f = &Fleet{
		Options: o, ledger: newLedger(o.Node), news: make(chan struct{}, 1), asks: make(chan func()),
		ended: make(chan struct{}),
	}
	if o.Embedded != nil {
		if f.server, err = newEmbedded(&o, false); err != nil {
			return nil, nil, err
		}
	}
	options, err := f.options(f.server)
	if err != nil {
		return nil, nil, err
	}
	f.changed = o.Bans.Subscribe()
	if o.Games != nil {
		f.drains = newDrains(&f.Options)
		o.Games.OnDrain(f.drains.change)
		f.counts = newCounts(&f.Options)
	}
	if o.Players != nil {
		f.players = newPlayers(&f.Options)
	}
	if o.Budgets != nil {
		f.budgets = newBudgets(&f.Options, f.counts.nodes)
	}
	f.inherit(time.Now(), o.Pending)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(f.ended)
		defer f.server.stop()
		defer f.server.start(ctx)()
		f.run(ctx, options)
	}()
	return f, func() {
		cancel()
		<-f.ended
	}, nil
}

// publish updates the state that Status returns.
func (f *Fleet) publish(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
	l := f.ledger
	f.status.Records, f.status.Waiting = len(l.entries), len(l.open)
	f.status.Conflicts, f.status.Beyond = l.conflicts, int(l.beyond)
}

// Times of attempts.
const (
	retryEvery  = time.Second     // while the bucket cannot be read, or does not take a change
	patience    = 3 * time.Second // for one answer of NATS
	lastChances = time.Second     // for the last changes before the end
)

var (
	errEnded   = errors.New("this node shares nothing with the fleet any more")
	errLost    = errors.New("no connection to NATS")
	errRefused = errors.New("the bucket refuses changes for another reason than a newer one")
)

// run shares bans until ctx is done.
func (f *Fleet) run(ctx context.Context, options []nats.Option) {
	connection, err := nats.Connect(strings.Join(f.Servers, ","), options...)
	if err != nil { // not a missing server: the connection tries again by itself
		f.publish(func(s *Status) { s.Error = err.Error() })
		f.Log.Error().Err(err).Msg("fleet not shared until a restart")
		return
	}
	defer connection.Close()
	f.mu.Lock()
	f.connection = connection
	f.mu.Unlock()
	f.survey = time.NewTimer(surveyEvery)
	defer f.survey.Stop()
	f.takeStock() // the bans of the file
	defer f.drains.start(ctx, connection, &f.Options)()
	defer f.counts.start(ctx, connection)()
	defer f.players.start(ctx, connection)()
	defer f.budgets.start(ctx, connection)()
	for ctx.Err() == nil {
		err := errLost
		if connection.IsConnected() {
			err = f.share(ctx, connection)
		}
		if ctx.Err() != nil {
			return
		}
		f.report(connection, err)
		f.rest(ctx, connection)
	}
}

// report logs an error if it is another one than the last.
func (f *Fleet) report(connection *nats.Conn, err error) {
	err = f.server.cause(err)
	f.mu.Lock()
	last := f.status.Error
	f.mu.Unlock()
	f.publish(func(s *Status) {
		s.Connected, s.Current, s.Server, s.Error = connection.IsConnected(), false, "", err.Error()
	})
	if err.Error() != last {
		f.Log.Warn().Err(err).Msg("fleet not shared; the bans in force stay")
	}
}

// rest waits for a reason to try again. Meanwhile this node's changes get the time at which they were made.
func (f *Fleet) rest(ctx context.Context, connection *nats.Conn) {
	retry := time.NewTimer(retryEvery)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ask := <-f.asks:
			ask()
		case <-f.news:
			if connection.IsConnected() {
				return
			}
			f.report(connection, errLost)
		case <-retry.C:
			if connection.IsConnected() {
				return
			}
			retry.Reset(retryEvery)
		case <-f.changed:
			f.planSurvey()
		case <-f.survey.C:
			f.takeStock()
		}
	}
}

// share keeps the bans of this node and those of the bucket equal until an error.
func (f *Fleet) share(ctx context.Context, connection *nats.Conn) error {
	b, err := openBucket(ctx, connection, &f.Options, banBucket)
	if err != nil {
		return err
	}
	defer b.close()
	f.ledger.begin()
	check := time.NewTicker(retryEvery)
	defer check.Stop()
	for read, current, stuck := uint64(0), false, false; ; {
		if !current && read >= b.pending { // all records that the bucket had
			current = true
			f.ledger.end(time.Now())
			f.arrive(connection)
		}
		if current {
			if err := f.send(ctx, b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			if current {
				f.sendLast(b)
			}
			return ctx.Err()
		case ask := <-f.asks:
			ask()
		case <-f.news:
			if !connection.IsConnected() {
				return errLost
			}
		case err := <-b.failed:
			return err
		case u := <-b.updates:
			f.receive(u, current)
			read++
		case <-f.changed:
			f.planSurvey()
		case <-f.survey.C:
			f.takeStock()
		case <-check.C:
			waiting := current && len(f.ledger.open) > 0
			if waiting && stuck {
				return errRefused
			}
			stuck = waiting
		}
	}
}

// arrive says that the node has read the whole bucket.
func (f *Fleet) arrive(connection *nats.Conn) {
	f.publish(func(s *Status) {
		s.Connected, s.Current, s.Server, s.Error = true, true, connection.ConnectedServerName(), ""
	})
	f.Log.Info().Str("server", connection.ConnectedServerName()).Int("records", len(f.ledger.entries)).
		Int("waiting", len(f.ledger.open)).Msg("fleet shared")
}

// surveyEvery is the interval of surveys without a change. They forget records that have ended.
const surveyEvery = time.Minute

// planSurvey makes a survey soon. All surveys together use at most a fifth of a core.
func (f *Fleet) planSurvey() {
	if !f.planned {
		f.planned = true
		f.survey.Reset(time.Until(f.rested))
	}
}

// takeStock makes a survey.
func (f *Fleet) takeStock() {
	began := time.Now()
	f.ledger.survey(began, f.Bans)
	f.rested = time.Now().Add(4 * time.Since(began))
	f.planned = false
	f.survey.Reset(surveyEvery)
	f.publish(func(*Status) {})
}

// receive merges one update of the bucket.
func (f *Fleet) receive(u *update, live bool) {
	now := time.Now()
	p, err := parseKey(u.key)
	if err == nil && u.deleted {
		f.ledger.gone(now, p, u.revision)
		return
	}
	r, err := parse(u.key, u.value, now)
	if err != nil {
		f.ignore(u, err)
		f.ledger.gone(now, p, u.revision) // this node's record replaces it
		return
	}
	f.ledger.fit(&r)
	f.ledger.look(now, p, f.Bans)
	applied := f.ledger.take(now, r, u.revision)
	if applied && r.removed {
		f.Bans.Remove(p)
	} else if applied {
		f.Bans.Add(r.ban)
	}
	f.publish(func(s *Status) {
		if r.node != f.Node {
			s.Received++
			if live && applied {
				s.Lag = lagOf(r.changed, now)
			}
		}
	})
}

// ignore counts a record that is not valid. It logs a few lines for any number of them.
func (f *Fleet) ignore(u *update, err error) {
	n := uint64(0)
	f.publish(func(s *Status) {
		s.Invalid++
		n = s.Invalid
	})
	if n&(n-1) == 0 {
		f.Log.Warn().Err(err).Uint64("revision", u.revision).Uint64("total", n).Msg("fleet record not valid")
	}
}

// batch bounds the changes that wait for an answer of NATS at once.
const batch = 256

// send writes this node's changes to the bucket. A change that the bucket refuses is merged with the newer record.
func (f *Fleet) send(ctx context.Context, b *bucket) error {
	for {
		writes := make([]write, 0, min(batch, len(f.ledger.open)))
		for p := range f.ledger.open {
			if e := f.ledger.entries[p]; !e.refused && len(writes) < batch {
				writes = append(writes, write{record: &e.record, revision: e.revision})
			}
		}
		if len(writes) == 0 {
			return nil
		}
		err := b.put(ctx, writes)
		sent := uint64(0)
		for _, w := range writes {
			if p := w.record.(*record).ban.Prefix; w.err == nil {
				f.ledger.written(p, w.revision)
				sent++
			} else {
				f.ledger.entries[p].refused = true // until another revision arrives
			}
		}
		f.publish(func(s *Status) { s.Sent += sent })
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
			f.receive(newer, true)
		}
	}
}

// sendLast sends the changes of the last moments before the end.
func (f *Fleet) sendLast(b *bucket) {
	ctx, cancel := context.WithTimeout(context.Background(), lastChances)
	defer cancel()
	f.takeStock()
	if err := f.send(ctx, b); err != nil {
		f.Log.Warn().Err(err).Int("changes", len(f.ledger.open)).Msg("last changes not shared")
	}
}
