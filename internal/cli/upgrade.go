package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func upgradeCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "upgrade",
		Usage: "make the running proxy start its program file anew, as SIGUSR2 does; no session ends",
		Description: "The new process takes over the listeners and all sessions. The old one ends at once.\n\n" +
			examples("tidegate upgrade"),
		Flags: []cli.Flag{jsonFlag},
	}, upgrade)
}

// upgradeTime bounds the wait for the new process.
const upgradeTime = time.Minute

func upgrade(c *cli.Context, client *admin.Client) error {
	var before, after admin.Version
	if err := client.Get(c.Context, "/api/v1/version", &before); err != nil {
		return err
	}
	if err := client.Post(c.Context, "/api/v1/upgrade", nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, upgradeTime)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		var state admin.Upgrade
		if err := client.Get(ctx, "/api/v1/upgrade", &state); err == nil && !state.Running && state.Error != "" {
			return false, errors.New("the proxy was not upgraded: " + state.Error)
		}
		err := client.Get(ctx, "/api/v1/version", &after)
		return err == nil && !after.Started.Equal(before.Started), nil
	})
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	return printDone(c, after, "upgraded from %s to %s", before.Version, after.Version)
}
