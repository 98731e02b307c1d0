package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/banfile"
	"tidegate/internal/config"
	"tidegate/internal/each"
	"tidegate/internal/filewatch"
	"tidegate/internal/pause"
	"tidegate/internal/setup"
	"tidegate/ratelimit"
)

// banSync keeps the bans of a running proxy and the ban file equal.
type banSync struct {
	bans      *ratelimit.Bans
	file      banfile.File // empty: bans are in memory only
	log       zerolog.Logger
	events    *admin.Events // nil: none
	syncing   sync.Mutex    // of sync
	lastError string        // the error that was logged last
}

// openBans reads the ban file of a configuration. A file that cannot be read is an error: without it, banned clients
// would get in. A file that cannot be written is not an error: its bans are in force.
func openBans(c *config.Config, log zerolog.Logger) (*banSync, error) {
	k := &banSync{
		bans: ratelimit.NewBans(setup.BanTerms(c.Bans)), file: banfile.File(c.Path(c.Bans.File)), log: log,
	}
	if k.file == "" {
		return k, nil
	}
	err := k.file.Sync(time.Now(), k.bans)
	_, unwritten := errors.AsType[*banfile.WriteError](err)
	switch {
	case unwritten:
		log.Error().Err(err).Msg("ban file not written; its bans are in force")
	case err != nil:
		return nil, fmt.Errorf("read bans: %w", err)
	}
	return k, nil
}

// unwritten returns the bans that no file has, for a successor. They are none if there is a ban file.
func (k *banSync) unwritten() []banfile.Record {
	if k.file != "" {
		return nil
	}
	return each.Of(k.bans.All(), banfile.RecordOf)
}

// inheritChanges imposes and lifts the bans that a predecessor without a ban file has imposed and lifted since.
func (k *banSync) inheritChanges(before, now []banfile.Record) {
	known := make(map[string]banfile.Record, len(before))
	for _, one := range before {
		known[one.Prefix] = one
	}
	var fresh []banfile.Record
	for _, one := range now {
		if known[one.Prefix] != one {
			fresh = append(fresh, one)
		}
		delete(known, one.Prefix)
	}
	for _, one := range known {
		if ban, err := one.Ban(); err == nil { // else it was never imposed
			k.bans.Remove(ban.Prefix)
		}
	}
	k.inherit(fresh)
}

// inherit imposes the bans of a predecessor without a ban file.
func (k *banSync) inherit(records []banfile.Record) {
	for i := range records {
		ban, err := records[i].Ban()
		if err != nil {
			k.log.Error().Err(err).Msg("ban of the predecessor is not valid")
			continue
		}
		k.bans.Add(ban)
	}
}

// pruneEvery is the interval at which the file is synchronized without a change. This removes expired bans and repeats
// failed writes.
const pruneEvery = time.Minute

// start keeps bans and file equal until ctx is done. The function stop waits until the last changes are written.
func (k *banSync) start(ctx context.Context) (stop func()) {
	if k.file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	changed := k.bans.Subscribe()
	fromFile := make(chan struct{}, 1)
	if watcher, err := filewatch.New(string(k.file)); err != nil {
		k.log.Warn().Err(err).Msg("ban file not watched")
	} else {
		go watcher.Run(ctx, func(string) {
			select {
			case fromFile <- struct{}{}:
			default: // a Sync is due anyway
			}
		})
	}
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx, changed, fromFile) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (k *banSync) run(ctx context.Context, changed, fromFile <-chan struct{}) {
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = k.sync() // sync logs the error
			return
		case <-changed:
		case <-fromFile:
		case <-prune.C:
		}
		began := time.Now()
		_ = k.sync()
		// Many changes of a large file share one Sync, and all Syncs together use at most a fifth of a core. A small file is
		// rewritten at once.
		pause.For(ctx, min(4*time.Since(began), longestPause))
	}
}

// longestPause bounds the time until a change of the file is in force, in addition to the time for reading it.
const longestPause = 30 * time.Second

// sync merges bans and file. It logs the same error only once.
func (k *banSync) sync() error {
	if k.file == "" {
		return nil
	}
	k.syncing.Lock()
	defer k.syncing.Unlock()
	err := k.file.Sync(time.Now(), k.bans)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != k.lastError && err != nil {
		k.log.Error().Err(err).Msg("ban file not synchronized; the bans in force stay")
		k.events.Add("disk", true, "ban file not synchronized; the bans in force stay: %v", err)
	}
	k.lastError = text
	return err
}
