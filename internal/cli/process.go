package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/daemon"
)

func healthCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:        "health",
		Usage:       "report whether the running proxy is healthy; if not, or without one, the exit code is 1",
		Description: examples("tidegate health", "tidegate health --ready --json"),
		Flags: []cli.Flag{jsonFlag, &cli.BoolFlag{
			Name: "ready", Usage: "report whether the proxy can take clients: it admits them, and has a server for them",
		}},
	}, health)
}

func health(c *cli.Context, client *admin.Client) error {
	path := "/livez"
	if c.Bool("ready") {
		path = "/readyz"
	}
	state, err := askHealth(c.Context, client, path)
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		err = printJSON(c, state)
	default:
		for _, check := range state.Checks {
			word := "ok"
			switch {
			case !check.OK:
				word = "not ok"
			case check.Warning != "":
				word = "warn"
			}
			fmt.Fprintf(c.App.Writer, "%-6s  %-13s  %s\n", word, check.Name, cmp.Or(check.Detail, check.Warning))
		}
	}
	if err == nil && !state.OK {
		err = cli.Exit("", 1)
	}
	return err
}

// askHealth reads both kinds of answers: an unhealthy proxy also has an error status.
func askHealth(ctx context.Context, client *admin.Client, path string) (state admin.Health, err error) {
	err = client.Get(ctx, path, &state)
	if refused, ok := errors.AsType[*admin.StatusError](err); ok && refused.Status == http.StatusServiceUnavailable {
		err = json.Unmarshal(refused.Body, &state)
	}
	return state, err
}

func metricsCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:        "metrics",
		Usage:       "print the running proxy's metrics, in the format of Prometheus",
		Description: examples("tidegate metrics"),
	}, func(c *cli.Context, client *admin.Client) error {
		metrics, err := client.Stream(c.Context, "/metrics")
		if err != nil {
			return err
		}
		defer func() { _ = metrics.Close() }()
		_, err = io.Copy(c.App.Writer, metrics)
		return err
	})
}

func eventsCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "events",
		Usage: "print the running proxy's time line: servers, reloads, floods, bans, drains and limits",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each event, and errors as JSON"},
			durationFlag(cli.GenericFlag{Name: "last", Usage: "print events of the last `TIME` only", DefaultText: "all"}, 0),
		},
		Description: "The process keeps its last 512 events, the oldest first. An exclamation mark is an event that an\n" +
			"operator should look at.\n\n" + examples("tidegate events", "tidegate events --last 1h --json"),
	}, printEvents)
}

func printEvents(c *cli.Context, client *admin.Client) error {
	var list admin.EventList
	if err := client.Get(c.Context, "/api/v1/events", &list); err != nil {
		return err
	}
	from := time.Time{}
	if last := durationOf(c, "last"); last > 0 {
		from = time.Now().Add(-last)
	}
	for i := range list.Events {
		e := &list.Events[i]
		switch {
		case e.At.Before(from):
		case c.Bool("json"):
			if err := printJSON(c, e); err != nil {
				return err
			}
		default:
			mark := ' '
			if e.Bad {
				mark = '!'
			}
			fmt.Fprintf(c.App.Writer, "%s %c %-7s  %s\n", e.At.Local().Format(time.DateTime), mark, e.Kind, printable(e.Text))
		}
	}
	return nil
}

func reloadCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "reload",
		Usage: "make the running proxy read its configuration file again: all of it, or nothing if it has a fault",
		Flags: []cli.Flag{jsonFlag, &cli.BoolFlag{Name: "status", Usage: "only print the results of the reloads so far"}},
		Description: "No session ends. If the file has faults, the command prints them and exits with 2.\n\n" +
			examples("tidegate reload", "tidegate reload --status --json"),
	}, reload)
}

func reload(c *cli.Context, client *admin.Client) error {
	var state admin.Reloads
	var err error
	if c.Bool("status") {
		err = client.Get(c.Context, "/api/v1/reload", &state)
	} else {
		err = client.Post(c.Context, "/api/v1/reload", nil, &state)
	}
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return printJSON(c, state)
	case !c.Bool("status"):
		fmt.Fprintln(c.App.Writer, "configuration reloaded")
	default:
		fmt.Fprintf(c.App.Writer, "%d succeeded, %d failed\n", state.Succeeded, state.Failed)
		if state.Error != "" {
			fmt.Fprintf(c.App.Writer, "the last reload failed:\n%s\n", state.Error)
		}
	}
	if len(state.Restart) > 0 {
		fmt.Fprintf(c.App.Writer, "a restart is needed for %s\n", strings.Join(state.Restart, ", "))
	}
	return nil
}

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

func versionCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "The flags --version and -v do the same.\n\n" + examples("tidegate version"),
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			return printDone(c, struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				System  string `json:"system"`
			}{daemon.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH},
				"tidegate %s %s %s/%s", daemon.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	})
}
