package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/fleet/view"
)

// shareTime is how long a command waits for the fleet to have its change.
const shareTime = time.Second

// tellUnshared says on standard error if the fleet does not have the changes of a command. Without a fleet, or an
// answer, it says nothing.
func tellUnshared(c *cli.Context, client *admin.Client) {
	ctx, cancel := context.WithTimeout(c.Context, shareTime)
	defer cancel()
	var last view.Fleet
	_ = poll(ctx, func() (bool, error) {
		var state view.Fleet
		err := client.Get(ctx, "/api/v1/fleet", &state)
		if err == nil {
			last = state
		}
		return err != nil || !state.On || !state.Current || state.Waiting == 0, err
	})
	if why := last.Unshared(); why != "" {
		fmt.Fprintln(c.App.ErrWriter, "warning: in force here; not shared yet:", printable(why))
	}
}
