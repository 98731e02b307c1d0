package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/daemon"
	"tidegate/internal/discovery"
	"tidegate/internal/doctor"
)

func doctorCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "doctor",
		Usage: "find the faults of this machine for a configuration, with remedies",
		Description: "Problems are faults that players notice. Advice is about features that Tidegate works without.\n" +
			"The exit code is 1 if there is a problem. Run it as the user that runs Tidegate: rights differ.\n\n" +
			examples("tidegate doctor", "tidegate doctor --json -c tidegate.toml"),
		Flags: []cli.Flag{configFlag, jsonFlag, &cli.DurationFlag{
			Name: "timeout", Aliases: []string{"t"}, Value: 3 * time.Second, Usage: "wait `DURATION` for servers and names",
		}},
		Action: examine,
	})
}

func examine(c *cli.Context) error {
	_, settled, err := load(c)
	if err != nil {
		return err
	}
	wait := c.Duration("timeout")
	m := doctor.ThisMachine(settled)
	m.Kernel = func() (filter, forward error) {
		k := daemon.NewKernel(settled, 1)
		_ = daemon.CloseKernel(&k) // nothing was attached
		return k.NoShield, k.NoFlows
	}
	m.Running = func(ctx context.Context) (string, error) { return liveConfig(ctx, settled, wait) }
	m.Ask = func(ctx context.Context) (all []doctor.Answer) {
		for _, p := range probeServers(ctx, settled, wait) {
			a := doctor.Answer{Upstream: p.Upstream, Server: p.Server, Asked: p.Asked}
			if p.Asked && (!p.Answered || p.Refuses) {
				a.Fault = p.Text
			}
			all = append(all, a)
		}
		return all
	}
	m.Cluster = func(ctx context.Context, u *config.Upstream) error { return askClusters(ctx, settled, u, wait) }
	ctx, cancel := context.WithTimeout(c.Context, 4*wait+10*time.Second)
	defer cancel()
	results := doctor.Examine(ctx, settled, m)
	problems := 0
	for _, r := range results {
		for _, f := range r.Findings {
			if f.Severity == doctor.Problem {
				problems++
			}
		}
	}
	if c.Bool("json") {
		err = printJSON(c, map[string]any{"checks": results, "problems": problems})
	} else {
		printResults(c, results)
	}
	if err == nil && problems > 0 {
		err = cli.Exit("", 1)
	}
	return err
}

// printResults prints a line for each check, and below it the findings with their remedies.
func printResults(c *cli.Context, results []doctor.Result) {
	for _, r := range results {
		word := "ok"
		for _, f := range r.Findings {
			if word != string(doctor.Problem) {
				word = string(f.Severity)
			}
		}
		fmt.Fprintf(c.App.Writer, "%-8s %-12s %s\n", word, r.Check, printable(r.Detail))
		for _, f := range r.Findings {
			fmt.Fprintf(c.App.Writer, "         - %s\n           remedy: %s\n", printable(f.Text), printable(f.Remedy))
		}
	}
}

// liveConfig returns the configuration of the proxy at the admin address, or "" if no proxy listens there.
func liveConfig(ctx context.Context, settled *config.Config, wait time.Duration) (string, error) {
	if settled.Admin.Listen == config.AdminOff {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var running admin.Configuration
	client := admin.NewClient(admin.Address(settled.Admin.Listen), string(settled.Admin.Token))
	err := client.Get(ctx, "/api/v1/config", &running)
	if isAbsent(err) {
		return "", nil
	}
	return running.TOML, err
}

// askClusters asks the API servers of Kubernetes for an upstream's servers.
func askClusters(ctx context.Context, c *config.Config, u *config.Upstream, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, source := range daemon.Clusters(c, u) {
		if _, err := discovery.Ask(ctx, source); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}
