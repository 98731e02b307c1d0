package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/pause"
	"tidegate/internal/table"
)

func upstreamsCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "upstreams",
		Usage: "list the running proxy's game servers, drain them, and use them again",
		Subcommands: []*cli.Command{
			operatorCommand(&cli.Command{
				Name: "list", Usage: "list upstreams and their servers",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each upstream"}},
				Description: examples("tidegate upstreams list", "tidegate upstreams list --json"),
			}, listing("/api/v1/upstreams", func(l *admin.Upstreams) []admin.Upstream { return l.Upstreams },
				serverColumns, serverRows)),
			operatorCommand(&cli.Command{
				Name: "drain", Usage: "give a server no new sessions; its sessions stay",
				Flags: []cli.Flag{
					jsonFlag, &cli.BoolFlag{Name: "move", Usage: "move its sessions to the upstream's other servers"},
				},
				Description: examples("tidegate upstreams drain arena 10.0.0.5:19132",
					"tidegate upstreams drain --move arena 10.0.0.5:19132"),
			}, drainServer, "UPSTREAM", "SERVER"),
			operatorCommand(&cli.Command{
				Name: "undrain", Usage: "give a drained server new sessions again", Flags: []cli.Flag{jsonFlag},
				Description: examples("tidegate upstreams undrain arena 10.0.0.5:19132"),
			}, changeServer("undrain"), "UPSTREAM", "SERVER"),
		},
	})
}

var serverColumns = []table.Column{
	{Name: "UPSTREAM"}, {Name: "SERVER"}, {Name: "STATE"}, {Name: "SINCE", Drop: 2}, {Name: "SESSIONS", Number: true},
	{Name: "MAX", Number: true, Drop: 4}, {Name: "WEIGHT", Number: true, Drop: 5}, {Name: "RTT", Number: true, Drop: 3},
	{Name: "TURNED AWAY", Number: true, Drop: 2}, {Name: "CAUSE", Drop: 1},
}

func serverRows(u *admin.Upstream) (rows [][]string) {
	for _, s := range u.Servers {
		since, most := "-", "-"
		if !s.Since.IsZero() {
			since = s.Since.Local().Format(time.DateTime)
		}
		if s.MaxSessions > 0 {
			most = strconv.Itoa(s.MaxSessions)
		}
		rows = append(rows, []string{
			u.Name, s.Address, s.State, since, strconv.Itoa(s.Sessions), most, strconv.Itoa(s.Weight), rtt(s.RTT),
			strconv.Itoa(s.TurnedAway), s.Cause,
		})
	}
	return rows
}

func drainServer(c *cli.Context, client *admin.Client) error {
	if !c.Bool("move") {
		return changeServer("drain")(c, client)
	}
	name, server := c.Args().Get(0), c.Args().Get(1)
	var moved admin.Moved
	path := "/api/v1/upstreams/" + url.PathEscape(name) + "/transfer"
	if err := client.Post(c.Context, path, admin.ServerOf{Server: server}, &moved); err != nil {
		return err
	}
	tellUnshared(c, client)
	return printDone(c, moved, "server %s of %s: drained; %d of its sessions move to other servers", server, name,
		moved.Sessions)
}

func changeServer(verb string) func(*cli.Context, *admin.Client) error {
	return func(c *cli.Context, client *admin.Client) error {
		name, server := c.Args().Get(0), c.Args().Get(1)
		path := "/api/v1/upstreams/" + url.PathEscape(name) + "/" + verb
		if err := client.Post(c.Context, path, admin.ServerOf{Server: server}, nil); err != nil {
			return err
		}
		tellUnshared(c, client)
		return printDone(c, struct{}{}, "server %s of %s: %sed", server, name, verb)
	}
}

func drainCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "drain",
		Usage: "end the running proxy as SIGTERM does: it admits no new clients, and says goodbye to all others",
		Description: "Without --wait the command ends at once, and the proxy ends when all goodbyes are said. Another\n" +
			"drain changes nothing. The log names the address that asked.\n\n" +
			"With --to-fleet, sessions move to other nodes, and their clients play on. The proxy passes datagrams on\n" +
			"that still arrive here. So lead the clients' paths to other nodes: /readyz answers 503. The proxy ends when\n" +
			"no such datagram has come for three seconds. After --within it says goodbye to the clients that are left.\n\n" +
			examples("tidegate drain --wait", "tidegate drain --to-fleet --within 10m --wait"),
		Flags: []cli.Flag{
			jsonFlag, &cli.BoolFlag{Name: "wait", Usage: "return when the proxy has ended"},
			&cli.BoolFlag{Name: "to-fleet", Usage: "move sessions to the other nodes of the fleet first (fleet.follow)"},
			&cli.StringFlag{Name: "node", Usage: "move all sessions to `NODE`", DefaultText: "all other nodes"},
			&cli.DurationFlag{Name: "within", Value: 5 * time.Minute, Usage: "end after `TIME`, also with sessions left"},
		},
	}, func(c *cli.Context, client *admin.Client) error {
		if err := askDrain(c, client); err != nil {
			return err
		}
		if !c.Bool("wait") {
			return printDone(c, drained{false}, "the proxy admits no new sessions, and ends")
		}
		err := poll(c.Context, func() (bool, error) {
			var state admin.Version
			return isAbsent(client.Get(c.Context, "/api/v1/version", &state)), nil
		})
		if err != nil {
			return err
		}
		return printDone(c, drained{true}, "the proxy has ended")
	})
}

// askDrain asks the proxy for a drain.
func askDrain(c *cli.Context, client *admin.Client) error {
	if c.Bool("to-fleet") {
		how := admin.FleetDrain{Node: c.String("node"), Within: c.Duration("within").Seconds()}
		return client.Post(c.Context, "/api/v1/fleet/drain", how, nil)
	}
	if c.IsSet("node") || c.IsSet("within") {
		return misuse(errors.New("--node and --within: want --to-fleet too"))
	}
	return client.Post(c.Context, "/api/v1/drain", nil, nil)
}

// drained is the JSON of drain.
type drained struct {
	Ended bool `json:"ended"`
}

// pollInterval is the time between two questions while a command waits for the proxy.
const pollInterval = 100 * time.Millisecond

// poll calls done until it returns true or an error, or ctx is done.
func poll(ctx context.Context, done func() (bool, error)) error {
	for range pause.Every(ctx, pollInterval) {
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("interrupted: %w", ctx.Err())
}
