package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/fleet/view"
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
				Description: "Bans and drains of servers are the same at all nodes, and counts of sessions add up.\n\n" +
					examples("tidegate fleet status", "tidegate fleet status --json"),
				Flags: []cli.Flag{jsonFlag},
			}, fleetStatus),
			operatorCommand(&cli.Command{
				Name: "bans", Usage: "list the bans of the fleet, and the nodes that imposed them",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each ban"}},
				Description: examples("tidegate fleet bans", "tidegate fleet bans --json"),
			}, listing("/api/v1/fleet/bans", func(l *admin.FleetBans) []admin.FleetBan { return l.Bans },
				fleetBanColumns, fleetBanRow)),
			operatorCommand(&cli.Command{
				Name: "servers", Usage: "list the game servers of the fleet, with each node's health and count of sessions",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each server"}},
				Description: "A row for each server and node. `tidegate upstreams undrain` at any node ends a drain at all " +
					"nodes.\n\n" +
					examples("tidegate fleet servers", "tidegate fleet servers --json"),
			}, listing("/api/v1/fleet/servers", func(l *admin.FleetServers) []admin.FleetServer { return l.Servers },
				fleetServerColumns, fleetServerRows)),
			operatorCommand(&cli.Command{
				Name: "sessions", Usage: "count the sessions of each node of the fleet by protocol",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each node"}},
				Description: "`tidegate fleet servers` counts them by server. `tidegate sessions list` at a node lists its " +
					"sessions.\n\n" + examples("tidegate fleet sessions", "tidegate fleet sessions --json"),
			}, listing("/api/v1/fleet/sessions", func(l *admin.FleetSessions) []admin.FleetNode { return l.Nodes },
				fleetSessionColumns, fleetSessionRows)),
		},
	})
}

func fleetStatus(c *cli.Context, client *admin.Client) error {
	var f view.Fleet
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

var fleetBanColumns = []table.Column{
	{Name: "NETWORK"}, {Name: "NODE"}, {Name: "AGE", Drop: 2}, {Name: "LEFT"}, {Name: "BY", Drop: 1}, {Name: "REASON"},
}

func fleetBanRow(b *admin.FleetBan) [][]string {
	now, ban := time.Now(), ratelimit.Ban{Until: b.Until}
	age := config.Duration(max(0, now.Sub(b.Since)).Round(time.Second)).String()
	return [][]string{
		{b.Prefix, printable(b.Node), age, remaining(&ban, now), printable(b.Author), printable(b.Reason)},
	}
}

var fleetServerColumns = []table.Column{
	{Name: "UPSTREAM"}, {Name: "SERVER"}, {Name: "SESSIONS", Number: true}, {Name: "NODE"}, {Name: "STATE"},
	{Name: "AT NODE", Number: true}, {Name: "DRAINED BY", Drop: 2}, {Name: "SINCE", Drop: 1},
}

// fleetServerRows returns a row for each node that lists a server. A drained server that no node lists has one row.
func fleetServerRows(s *admin.FleetServer) (rows [][]string) {
	by, since := "-", "-"
	if s.DrainedBy != "" {
		by, since = printable(s.DrainedBy), s.DrainedSince.Local().Format(time.DateTime)
	}
	row := func(node, state, sessions string) {
		rows = append(rows, []string{
			printable(s.Upstream), s.Address, strconv.Itoa(s.Sessions), node, state, sessions, by, since,
		})
	}
	for _, n := range s.Nodes {
		row(printable(n.Node), printable(n.State), strconv.Itoa(n.Sessions))
	}
	if len(s.Nodes) == 0 {
		row("-", "-", "-")
	}
	return rows
}

var fleetSessionColumns = []table.Column{
	{Name: "NODE"}, {Name: "PROTOCOL"}, {Name: "ESTABLISHED", Number: true}, {Name: "HALF-OPEN", Number: true},
	{Name: "AGE", Number: true, Drop: 1},
}

// fleetSessionRows returns a row for each protocol of a node. A node without any has one row.
func fleetSessionRows(n *admin.FleetNode) (rows [][]string) {
	age := fmt.Sprintf("%.1f s", n.Age)
	for _, p := range n.Protocols {
		rows = append(rows, []string{
			printable(n.Node), printable(p.Protocol), strconv.Itoa(p.Established), strconv.Itoa(p.HalfOpen), age,
		})
	}
	if len(rows) == 0 {
		rows = append(rows, []string{printable(n.Node), "-", "0", "0", age})
	}
	return rows
}

func printFleet(c *cli.Context, f *view.Fleet) {
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
	line("counts", "of %d other nodes, %.3f s old when they last changed; no room for %d servers", f.Nodes, f.Reports.Lag,
		f.Reports.Beyond)
	line("reports", "%d received, %d sent, %d not valid, %d without room", f.Reports.Received, f.Reports.Sent,
		f.Reports.Invalid, f.Reports.NoRoom)
	if p := &f.Players; p.On {
		line("players", "%d known at %d other nodes; datagrams: %d passed on, %d taken, %d answers, %d late, %d too many",
			p.Known, p.Nodes, p.Passed, p.Taken, p.Answers, p.Late, p.TooMany)
		line("moves", "%d sessions to other nodes, %d from other nodes", p.Left, p.Came)
	}
	if l := &f.Limits; l.On {
		line("limits", "%d reports received, %d sent, %d not valid, %d without room; amounts: %d charged, %d told",
			l.Received, l.Sent, l.Invalid, l.NoRoom, l.Charged, l.Told)
	}
	line("messages", "%d in, %d out", f.Messages.In, f.Messages.Out)
}

// explainFleet describes what a fleet shares, and the effect of each fault.
func explainFleet(f *config.Fleet) string {
	if !f.On() {
		return ""
	}
	by, lost := strings.Join(f.Servers, ", "), "a majority of the NATS servers is lost"
	if f.Embedded() {
		by = "the embedded server alone"
		lost = "the embedded server fails"
		if n := len(f.Peers); n > 1 {
			by = fmt.Sprintf("the embedded servers of %d nodes", n)
			lost = fmt.Sprintf("fewer than %d of the nodes run", n/2+1)
		}
	}
	limits := "fleet: limits hold at each node alone; with fleet.limits, those per address and per network are shared\n"
	if f.Limits {
		limits = "fleet: limits per address and per network hold for all nodes together, about, for clients that have " +
			"proved their address; others hold at each node alone\n"
	}
	follow := ""
	if f.Follow {
		follow = "fleet: a player whose path leads to another node keeps the session; that node passes the datagrams on\n"
	}
	return fmt.Sprintf("fleet: %s, node %s, by %s, state in %s\n", f.Name, f.NodeName(), by, copies(f.Copies())) +
		"fleet: shared are bans, drains of servers and counts of sessions; sessions and health are each node's own\n" +
		limits + "fleet: max_sessions holds for all nodes; a node knows the counts of others after 250ms " +
		"(beyond 12 nodes: 20ms for each), and forgets those of a silent node after 10 s\n" +
		"fleet: if NATS is away, or " + lost +
		", bans and drains stay in force; new ones hold at their node and are merged later\n" +
		"fleet: meanwhile max_sessions holds at each node alone\n" +
		"fleet: if this node restarts meanwhile, it begins with its ban file, and without drains\n" +
		"fleet: if the buckets are lost, the nodes write them again from their own state\n" + follow
}

func copies(n int) string {
	if n == 1 {
		return "one copy"
	}
	return fmt.Sprintf("%d copies", n)
}
