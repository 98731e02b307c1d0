package daemon

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"tidegate/internal/admin"
	"tidegate/internal/config"
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
		Limits: s.reloads.limits, Bans: s.bans.bans, SyncBans: s.bans.sync, Fleet: s.fleetState,
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
