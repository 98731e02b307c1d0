package daemon

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/filewatch"
	"tidegate/internal/setup"
	"tidegate/proxy"
)

// lists keeps the rules of a running proxy as the files say that they are read from.
type lists struct {
	ctx    context.Context // until when they are kept
	server *proxy.Server
	log    zerolog.Logger

	mu      sync.Mutex // guards what follows
	current *config.Config
	stop    context.CancelFunc
}

// follow watches the files that a configuration names, in place of those of the last one. Safe for concurrent use.
func (l *lists) follow(c *config.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
	l.current, l.stop = c, nil
	files := setup.RuleFiles(c)
	if len(files) == 0 {
		return nil
	}
	watcher, err := filewatch.New(files...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(l.ctx)
	l.stop = stop
	go watcher.Run(ctx, func(file string) { l.changed(c, file) })
	return nil
}

// changed puts the rules of changed files into force, or leaves the old ones there.
func (l *lists) changed(c *config.Config, file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c != l.current {
		return // another configuration has come meanwhile
	}
	set, err := setup.Rules(c)
	if err != nil {
		l.log.Error().Str("file", file).Err(err).Msg("rules not reloaded; the old ones stay in force")
		return
	}
	l.server.Filter(set)
	l.log.Info().Str("file", file).Msg("rules reloaded")
}
