package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/banfile"
	"tidegate/internal/config"
	"tidegate/internal/filewatch"
	"tidegate/internal/setup"
	"tidegate/ratelimit"
)

// banKeeper keeps the bans of a running proxy and their file the same.
type banKeeper struct {
	bans *ratelimit.Bans
	file banfile.File // empty: they are in memory only
	log  zerolog.Logger
	told string // the error that was logged last
}

// keepBans reads the bans of a configuration. A file that cannot be read is an error: without it, banned clients would get
// in. A file that cannot be written is not: the bans in it are in force.
func keepBans(c *config.Config, log zerolog.Logger) (*banKeeper, error) {
	k := &banKeeper{
		bans: ratelimit.NewBans(setup.BanTerms(c.Bans)), file: banfile.File(c.Path(c.Bans.File)), log: log,
	}
	if k.file == "" {
		return k, nil
	}
	err := k.file.Sync(time.Now(), k.bans)
	var unwritten *banfile.WriteError
	switch {
	case errors.As(err, &unwritten):
		log.Error().Err(err).Msg("file of bans cannot be written; its bans are in force")
	case err != nil:
		return nil, fmt.Errorf("read bans: %w", err)
	}
	return k, nil
}

// pruneEvery is how often the file is looked at without cause: bans that are over are taken out, and what could not be
// written is tried again.
const pruneEvery = time.Minute

// start keeps bans and file the same until ctx is done. Stop waits until what changed last has been written.
func (k *banKeeper) start(ctx context.Context) (stop func()) {
	if k.file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	changed := k.bans.Subscribe()
	fromFile := make(chan struct{}, 1)
	if watcher, err := filewatch.New(string(k.file)); err != nil {
		k.log.Warn().Err(err).Msg("the file of bans is not watched")
	} else {
		go watcher.Run(ctx, func(string) {
			select {
			case fromFile <- struct{}{}:
			default: // it is to be looked at anyway
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run(ctx, changed, fromFile)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (k *banKeeper) run(ctx context.Context, changed, fromFile <-chan struct{}) {
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			k.sync()
			return
		case <-changed:
		case <-fromFile:
		case <-prune.C:
		}
		began := time.Now()
		k.sync()
		rest(ctx, time.Since(began))
	}
}

// longestRest bounds the time until a change of the file is in force, beside the time that reading it takes.
const longestRest = 30 * time.Second

// rest waits after a Sync of the file, for four times as long as the Sync took. So many changes of a large file share
// one Sync, and all of them together take a fifth of a core at most. A small file is rewritten at once.
func rest(ctx context.Context, took time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(min(4*took, longestRest)):
	}
}

// sync joins bans and file. The same error is told once.
func (k *banKeeper) sync() {
	err := k.file.Sync(time.Now(), k.bans)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != k.told && err != nil {
		k.log.Error().Err(err).Msg("bans and their file differ; what is in force stays so")
	}
	k.told = text
}
