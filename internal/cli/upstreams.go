package cli

import (
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
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
