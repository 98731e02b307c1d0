package daemon

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/filewatch"
	"tidegate/internal/setup"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// ruleFiles watches the files that rules are read from, and updates the rules of a running proxy.
type ruleFiles struct {
	ctx    context.Context // its end ends the watch
	server *proxy.Server
	joins  *joinServers
	log    zerolog.Logger

	mu      sync.Mutex // guards the fields below
	current *config.Config
	stop    context.CancelFunc
}

// follow watches the files of a configuration instead of those of the last one. Safe for concurrent use.
func (l *ruleFiles) follow(c *config.Config) error {
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

// changed reads the rules again after a change of a file. An error leaves the old rules in force.
func (l *ruleFiles) changed(c *config.Config, file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c != l.current {
		return // a newer configuration is in force
	}
	set, err := setup.Rules(c)
	if err != nil {
		l.log.Error().Str("file", file).Err(err).Msg("rules not reloaded; the old ones stay in force")
		return
	}
	if err := l.server.Ask(context.Background(), relay.SetRules(set)); err != nil {
		return // the proxy has ended
	}
	l.joins.rules.Store(set)
	l.log.Info().Str("file", file).Msg("rules reloaded")
}
