package daemon

import (
	"context"
	"fmt"

	"tidegate/internal/admin"
	"tidegate/internal/config"
)

// startAdmin opens the admin server, unless it is off. Close ends it.
func startAdmin(c *config.Config, o admin.Options) (stop func(), err error) {
	if c.Admin.Listen == config.AdminOff {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // it stays while players are told goodbye
	listener, err := admin.Listen(ctx, admin.Address(c.Admin.Listen))
	if err != nil {
		cancel()
		return nil, fmt.Errorf(`admin.listen = %q: %w; another address of its own, or "off", would do`, c.Admin.Listen, err)
	}
	o.Version, o.Token = Version(), string(c.Admin.Token)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := admin.New(o).Serve(ctx, listener); err != nil {
			o.Log.Error().Err(err).Msg("the admin server has ended")
		}
	}()
	o.Log.Info().Str("address", string(c.Admin.Listen)).Msg("admin server listening")
	return func() {
		cancel()
		<-ended
	}, nil
}
