package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func drainCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "drain",
		Usage: "end the running proxy as SIGTERM does: it admits no new clients, and says goodbye to all others",
		Description: "Without --wait the command ends at once, and the proxy ends when all goodbyes are said. Another\n" +
			"drain changes nothing. The log names the address that asked.\n\n" +
			examples("tidegate drain --wait"),
		Flags: []cli.Flag{jsonFlag, &cli.BoolFlag{Name: "wait", Usage: "return when the proxy has ended"}},
	}, func(c *cli.Context, client *admin.Client) error {
		var done struct{}
		if err := client.Post(c.Context, "/api/v1/drain", nil, &done); err != nil {
			return err
		}
		if c.Bool("wait") {
			if err := awaitEnd(c.Context, client); err != nil {
				return err
			}
			return printDone(c, drained{true}, "the proxy has ended")
		}
		return printDone(c, drained{false}, "the proxy admits no new sessions, and ends")
	})
}

// drained is the JSON of drain.
type drained struct {
	Ended bool `json:"ended"`
}

// pollInterval is the time between two questions while a command waits for the proxy.
const pollInterval = 100 * time.Millisecond

// awaitEnd returns when the proxy does not listen any more, or ctx is done.
func awaitEnd(ctx context.Context, client *admin.Client) error {
	return poll(ctx, func() (bool, error) {
		var state admin.Version
		err := client.Get(ctx, "/api/v1/version", &state)
		return isAbsent(err), nil
	})
}

// poll calls done until it returns true or an error, or ctx is done.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}
