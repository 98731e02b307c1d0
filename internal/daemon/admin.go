package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/fleet/view"
)

// startAdmin starts the admin server, unless it is off. The function stop ends it.
func startAdmin(c *config.Config, o admin.Options) (stop func(), err error) {
	if c.Admin.Listen == config.AdminOff {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // the server stays while clients get their goodbyes
	listener, err := admin.Listen(ctx, admin.Address(c.Admin.Listen))
	if err != nil && c.Admin.Listen == config.AdminAuto { // the operator did not ask for it
		cancel()
		o.Log.Warn().Err(err).Msg("admin server not started; set admin.listen")
		return func() {}, nil
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf(`admin.listen = %q: %w; use another address, or "off"`, c.Admin.Listen, err)
	}
	o.Version, o.Token = Version(), string(c.Admin.Token)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := admin.New(o).Serve(ctx, listener); err != nil {
			o.Log.Error().Err(err).Msg("admin server ended")
		}
	})
	o.Log.Info().Str("address", where(listener)).Msg("admin server listening")
	return func() {
		cancel()
		serving.Wait()
	}, nil
}

// openAdmin starts the admin server, until the service closes.
func (s *service) openAdmin(drain func(), upgrades *upgrader) error {
	stop, err := startAdmin(s.config, admin.Options{
		Proxy: s.server, Captures: s.captures,
		Reload: s.reloads.reload, Reloads: s.reloads.state, Config: s.reloads.configuration, Drain: drain,
		StartUpgrade: upgrades.request, Upgrades: upgrades.tried, Log: s.log, LinesLost: s.lines.Lost, Events: s.events,
		Limits: s.reloads.limits, Bans: s.bans.bans, SyncBans: s.bans.sync,
		Fleet:        func() view.Fleet { return s.fleet.Load().Status() },
		Joins:        s.joins.figures,
		FleetServers: s.fleetServers, FleetBans: s.fleetBans, FleetSessions: s.fleetSessions,
		DrainToFleet: func(ctx context.Context, node string, within time.Duration) error {
			return s.drainToFleet(ctx, node, within, drain)
		},
	})
	if err == nil {
		s.closers = append(s.closers, stop)
	}
	return err
}

// where returns the address of a listener as admin.listen would have it.
func where(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}

// Bounds of the access log: renamed files that are kept, and the MiB of each.
const accessFiles, accessSize = 5, 64

// accessWait bounds the time in which the last lines of the access log are written.
const accessWait = 2 * time.Second

// openAccessLog returns the logger for the access log, which writes behind a queue: a slow disk stops no loop. A file
// of a size in MiB is renamed, and a new one begun. Without a file it returns the zero Logger, which writes nothing.
// The function end writes the last lines.
func openAccessLog(c *config.Config, size int, log zerolog.Logger, events *admin.Events) (access zerolog.Logger,
	end func(), err error) {
	path := c.Path(c.Log.AccessFile)
	if path == "" {
		return access, func() {}, nil
	}
	probe, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) // to fail now, not at the first session
	if err == nil {
		err = probe.Close()
	}
	if err != nil {
		return access, nil, fmt.Errorf("log.access_file: %w", err)
	}
	file := &lumberjack.Logger{Filename: path, MaxSize: size, MaxBackups: accessFiles}
	queue := NewLogQueue(file)
	report := func(lost uint64) { log.Warn().Uint64("lines", lost).Msg("access log lines lost") }
	queue.resumed.Store(&report)
	failed := func(err error) {
		log.Warn().Err(err).Msg("access log not written")
		events.Add("disk", true, "access log not written: %v", err)
	}
	queue.failed.Store(&failed)
	end = func() {
		if !queue.Close(accessWait) {
			log.Warn().Msg("access log: the last lines are lost")
		}
		if err := file.Close(); err != nil {
			log.Warn().Err(err).Msg("access log not closed")
		}
	}
	return zerolog.New(queue).With().Timestamp().Logger(), end, nil
}
