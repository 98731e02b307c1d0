package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/table"
	"tidegate/ratelimit"
)

func fleetCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "fleet",
		Usage: "show what the running proxy shares with the other nodes of its fleet",
		Subcommands: []*cli.Command{
			operatorCommand(&cli.Command{
				Name:  "status",
				Usage: "show the connection to NATS, and whether its bans and drains are in force; if not, the exit code is 1",
				Description: "Bans and drains of servers are the same at all nodes.\n\n" +
					examples("tidegate fleet status", "tidegate fleet status --json"),
				Flags: []cli.Flag{jsonFlag},
			}, fleetStatus),
			operatorCommand(&cli.Command{
				Name: "bans", Usage: "list the bans of the fleet, and the nodes that imposed them",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each ban"}},
				Description: examples("tidegate fleet bans", "tidegate fleet bans --json"),
			}, fleetBans),
			operatorCommand(&cli.Command{
				Name: "servers", Usage: "list the game servers that the fleet drains, and the nodes that drained them",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each server"}},
				Description: "`tidegate upstreams undrain` at any node ends a drain at all nodes.\n\n" +
					examples("tidegate fleet servers", "tidegate fleet servers --json"),
			}, fleetServers),
		},
	})
}

func fleetStatus(c *cli.Context, client *admin.Client) error {
	var f admin.Fleet
	if err := client.Get(c.Context, "/api/v1/fleet", &f); err != nil {
		return err
	}
	if c.Bool("json") {
		if err := printJSON(c, f); err != nil {
			return err
		}
	} else {
		printFleet(c, &f)
	}
	if f.On && !f.Current {
		return cli.Exit("", 1)
	}
	return nil
}

func fleetBans(c *cli.Context, client *admin.Client) error {
	var list admin.FleetBans
	if err := client.Get(c.Context, "/api/v1/fleet/bans", &list); err != nil {
		return err
	}
	if c.Bool("json") {
		return printEach(c, list.Bans)
	}
	now, rows := time.Now(), make([][]string, len(list.Bans))
	for i, b := range list.Bans {
		age := config.Duration(max(0, now.Sub(b.Since)).Round(time.Second)).String()
		ban := ratelimit.Ban{Until: b.Until}
		rows[i] = []string{b.Prefix, printable(b.Node), age, remaining(&ban, now), printable(b.Author), printable(b.Reason)}
	}
	printTable(c.App.Writer, []table.Column{
		{Name: "NETWORK"}, {Name: "NODE"}, {Name: "AGE", Drop: 2}, {Name: "LEFT"}, {Name: "BY", Drop: 1}, {Name: "REASON"},
	}, rows)
	return nil
}

func fleetServers(c *cli.Context, client *admin.Client) error {
	var list admin.FleetServers
	if err := client.Get(c.Context, "/api/v1/fleet/servers", &list); err != nil {
		return err
	}
	if c.Bool("json") {
		return printEach(c, list.Servers)
	}
	rows := make([][]string, len(list.Servers))
	for i, s := range list.Servers {
		rows[i] = []string{printable(s.Upstream), s.Address, printable(s.Node), s.Since.Local().Format(time.DateTime)}
	}
	printTable(c.App.Writer, []table.Column{
		{Name: "UPSTREAM"}, {Name: "SERVER"}, {Name: "DRAINED BY"}, {Name: "SINCE"},
	}, rows)
	return nil
}

// printEach prints a line of JSON for each item.
func printEach[T any](c *cli.Context, items []T) error {
	for i := range items {
		if err := printJSON(c, &items[i]); err != nil {
			return err
		}
	}
	return nil
}

func printFleet(c *cli.Context, f *admin.Fleet) {
	line := func(name, format string, v ...any) {
		fmt.Fprintf(c.App.Writer, "%-10s %s\n", name, printable(fmt.Sprintf(format, v...)))
	}
	if !f.On {
		line("fleet", "none: the configuration has neither fleet.servers nor fleet.embedded")
		return
	}
	line("fleet", "%s, this node is %s", f.Name, f.Node)
	reason := cmp.Or(f.Error, "no attempt has ended yet")
	switch {
	case f.Current:
		line("state", "the bans and drains in force are those of the fleet, by %s", f.Server)
	case f.Connected:
		line("state", "connected, but not shared: %s; those in force stay", reason)
	default:
		line("state", "not connected: %s; those in force stay", reason)
	}
	line("networks", "%d banned or just freed", f.Bans)
	line("servers", "%d drained", f.Drained)
	line("changes", "%d wait, no room for %d", f.Waiting, f.Beyond)
	line("records", "%d received, %d sent, %d not valid, %d conflicts", f.Received, f.Sent, f.Invalid, f.Conflicts)
	line("lag", "%.3f s for the last change at another node, by the clocks of both", f.Lag)
}

// explainFleet describes what a fleet shares, and the effect of each fault.
func explainFleet(f *config.Fleet) string {
	if !f.On() {
		return ""
	}
	by, lost := strings.Join(f.Servers, ", "), "a majority of the NATS servers is lost"
	if f.Embedded {
		by = "the embedded server alone"
		lost = "the embedded server fails"
		if n := len(f.Peers); n > 1 {
			by = fmt.Sprintf("the embedded servers of %d nodes", n)
			lost = fmt.Sprintf("fewer than %d of the nodes run", n/2+1)
		}
	}
	return fmt.Sprintf("fleet: %s, node %s, by %s, state in %s\n", f.Name, f.NodeName(), by, copies(f.Copies())) +
		"fleet: shared are bans and drains of servers; sessions, limits, counts and health are each node's own\n" +
		"fleet: if NATS is away, or " + lost +
		", bans and drains stay in force; new ones hold at their node and are merged later\n" +
		"fleet: if this node restarts meanwhile, it begins with its ban file, and without drains\n" +
		"fleet: if the buckets are lost, the nodes write them again from their own state\n"
}

func copies(n int) string {
	if n == 1 {
		return "one copy"
	}
	return fmt.Sprintf("%d copies", n)
}
