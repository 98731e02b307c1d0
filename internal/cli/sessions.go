package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/each"
	"tidegate/internal/table"
	"tidegate/internal/words"
)

func sessionsCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "sessions",
		Usage: "list, show, move, end, export and import the sessions of the running proxy",
		Subcommands: []*cli.Command{
			operatorCommand(&cli.Command{
				Name:  "list",
				Usage: "list sessions, oldest first",
				Flags: append(choosingFlags(),
					&cli.StringFlag{Name: "sort", Value: sortByAge, Usage: "sort by `FIGURE`: " + strings.Join(sortNames(), ", ")},
					&cli.IntFlag{Name: "limit", Usage: "list at most `N` sessions", DefaultText: "all"},
					&cli.BoolFlag{Name: "count", Usage: "print only the number of sessions"},
					&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each session"},
				),
				Description: "Figures are sorted from the largest, the age from the oldest.\n\n" +
					examples("tidegate sessions list", "tidegate sessions list --listener public --limit 20 --json",
						"tidegate sessions list --client 203.0.113.0/24 --sort rtt",
						"tidegate sessions list --server 10.0.0.5:19132 --count"),
			}, listSessions),
			operatorCommand(&cli.Command{
				Name: "show", Usage: "show one session and its two connections",
				Flags:       []cli.Flag{jsonFlag},
				Description: examples("tidegate sessions show 1"),
			}, showSession, "ID"),
			operatorCommand(&cli.Command{
				Name: "transfer", Usage: "move a session to another server of its upstream",
				Flags: []cli.Flag{jsonFlag},
				Description: "The client's data from its join goes to the new server. Reliable messages of the\n" +
					"client wait meanwhile.\n\n" +
					examples("tidegate sessions transfer 1 10.0.0.6:19132"),
			}, transferSession, "ID", "SERVER"),
			kickCommand(),
			exportCommand(),
			importCommand(),
		},
	})
}

func listSessions(c *cli.Context, client *admin.Client) error {
	limit := c.Int("limit")
	if c.IsSet("limit") && limit < 1 {
		return misuse(fmt.Errorf("--limit %d: want at least 1", limit))
	}
	by, ok := figures[c.String("sort")]
	if !ok {
		return misuse(fmt.Errorf("--sort %q: want one of %s", c.String("sort"), strings.Join(sortNames(), ", ")))
	}
	if c.String("sort") == sortByAge && !c.Bool("count") {
		return listPages(c, client, limit)
	}
	all, err := chosenSessions(c, client, 0)
	switch {
	case err != nil:
		return err
	case c.Bool("count"):
		return printDone(c, struct {
			Sessions int `json:"sessions"`
		}{len(all)}, "%d", len(all))
	}
	slices.SortStableFunc(all, func(a, b admin.Session) int { return cmp.Compare(by(&b), by(&a)) })
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return printSessions(c, all)
}

// listPages lists sessions in the proxy's order. JSON is printed page by page.
func listPages(c *cli.Context, client *admin.Client, limit int) error {
	if !c.Bool("json") {
		all, err := chosenSessions(c, client, limit)
		if err != nil {
			return err
		}
		return printSessions(c, all)
	}
	chosen, err := choose(c)
	if err != nil {
		return err
	}
	return chosen.each(c.Context, client, limit, func(page []admin.Session) error { return printSessions(c, page) })
}

func printSessions(c *cli.Context, all []admin.Session) error {
	return printList(c, all, sessionColumns, sessionRow)
}

// sortByAge is the proxy's own order.
const sortByAge = "age"

// figures are the figures of a session by which a list can be sorted.
var figures = map[string]func(*admin.Session) float64{
	sortByAge:    func(s *admin.Session) float64 { return s.Age },
	"rtt":        func(s *admin.Session) float64 { return s.Client.RTT },
	"server-rtt": func(s *admin.Session) float64 { return s.Server.RTT },
	"queued":     func(s *admin.Session) float64 { return float64(s.Client.Queued + s.Server.Queued) },
	"messages":   func(s *admin.Session) float64 { return float64(s.Client.Messages + s.Server.Messages) },
	"resent":     func(s *admin.Session) float64 { return float64(s.Client.Resent + s.Server.Resent) },
	"dropped":    func(s *admin.Session) float64 { return float64(s.Client.Dropped + s.Server.Dropped) },
}

func sortNames() []string { return slices.Sorted(maps.Keys(figures)) }

var sessionColumns = []table.Column{
	{Name: "ID"}, {Name: "CLIENT"}, {Name: "PROTOCOL", Drop: 2}, {Name: "STATE"}, {Name: "AGE", Number: true},
	{Name: "RTT", Number: true, Drop: 1}, {Name: "SERVER", Drop: 3}, {Name: "SERVER RTT", Number: true, Drop: 8},
	{Name: "TO SERVER", Number: true, Drop: 5}, {Name: "TO CLIENT", Number: true, Drop: 4},
	{Name: "QUEUED", Number: true, Drop: 6}, {Name: "LISTENER", Drop: 7},
}

func sessionRow(s *admin.Session) [][]string {
	return [][]string{{
		s.ID, s.Client.Address, s.Client.Protocol, s.State, age(s.Age), rtt(s.Client.RTT), cmp.Or(s.Server.Address, "-"),
		rtt(s.Server.RTT), strconv.FormatUint(s.Client.Messages, 10), strconv.FormatUint(s.Server.Messages, 10),
		strconv.Itoa(s.Client.Queued + s.Server.Queued), s.Listener,
	}}
}

func showSession(c *cli.Context, client *admin.Client) error {
	var s admin.Session
	if err := client.Get(c.Context, "/api/v1/sessions/"+url.PathEscape(c.Args().First()), &s); err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c, s)
	}
	fmt.Fprintf(c.App.Writer, "session %s: %s for %s, by listener %s and route %s (%s)\n",
		s.ID, s.State, age(s.Age), s.Listener, s.Route, s.Mode)
	rows := [][]string{
		{"address", s.Client.Address, cmp.Or(s.Server.Address, "-")},
		{"protocol", s.Client.Protocol, s.Server.Protocol},
		{"round trip", rtt(s.Client.RTT), rtt(s.Server.RTT)},
	}
	for _, figure := range []struct {
		name string
		of   func(*admin.Side) uint64
	}{
		{"messages from it", func(s *admin.Side) uint64 { return s.Messages }},
		{"bytes from it", func(s *admin.Side) uint64 { return s.Bytes }},
		{"datagrams from it", func(s *admin.Side) uint64 { return s.Received }},
		{"dropped from it", func(s *admin.Side) uint64 { return s.Dropped }},
		{"datagrams to it", func(s *admin.Side) uint64 { return s.Sent }},
		{"resent to it", func(s *admin.Side) uint64 { return s.Resent }},
		{"lost to it", func(s *admin.Side) uint64 { return s.Lost }},
		{"bytes queued to it", func(s *admin.Side) uint64 { return uint64(s.Queued) }},
	} {
		rows = append(rows, []string{figure.name, fmt.Sprint(figure.of(&s.Client)), fmt.Sprint(figure.of(&s.Server))})
	}
	printTable(c.App.Writer, []table.Column{{Name: ""}, {Name: "CLIENT", Number: true}, {Name: "SERVER", Number: true}},
		rows)
	return nil
}

func transferSession(c *cli.Context, client *admin.Client) error {
	id, server := c.Args().Get(0), c.Args().Get(1)
	path := "/api/v1/sessions/" + url.PathEscape(id) + "/transfer"
	if err := client.Post(c.Context, path, admin.Transfer{Server: server}, nil); err != nil {
		return err
	}
	return printDone(c, struct {
		Session string `json:"session"`
		Server  string `json:"server"`
	}{id, server}, "session %s moves to %s", id, server)
}

// age formats a time in seconds for people.
func age(seconds float64) string {
	return (time.Duration(seconds) * time.Second).String()
}

// rtt formats a round trip in milliseconds for people; "-" if it is unknown.
func rtt(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fms", ms)
}

func kickCommand() *cli.Command {
	c := operatorCommandFor(&cli.Command{
		Name: "kick", Usage: "end sessions with a goodbye in the client's protocol",
		Flags: append(choosingFlags(), jsonFlag,
			&cli.BoolFlag{Name: "all", Usage: "end every session that the other flags choose, or of the whole proxy"},
			&cli.StringFlag{Name: "text", Usage: "send `TEXT` to the client, if its protocol has texts (Riptide)"},
		),
		Description: "Name sessions by their IDs, or choose them with flags.\n\n" +
			examples(`tidegate sessions kick --text "You were away for too long" 1`,
				"tidegate sessions kick --client 203.0.113.7", "tidegate sessions kick --server 10.0.0.5:19132 --all"),
	}, wantSessions, kickSessions)
	c.ArgsUsage = "[ID...]"
	return c
}

// wantSessions checks that a command line names sessions.
func wantSessions(c *cli.Context) error {
	chosen := slices.ContainsFunc(choosingFlags(), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) })
	switch {
	case c.NArg() > 0 && (chosen || c.Bool("all")):
		return misuse(fmt.Errorf("%s: want IDs or flags that choose sessions, not both", commandPath(c)))
	case c.NArg() == 0 && !chosen && !c.Bool("all"):
		return misuse(fmt.Errorf("%s: want IDs, flags that choose sessions, or --all", commandPath(c)))
	}
	return nil
}

// kicked is the JSON of kick.
type kicked struct {
	Kicked int      `json:"kicked"`
	IDs    []string `json:"sessions"`
}

// chosenIDs returns the sessions that the command's arguments name. Without arguments, its flags choose them.
func chosenIDs(c *cli.Context, client *admin.Client) ([]string, error) {
	if c.NArg() > 0 {
		return c.Args().Slice(), nil
	}
	all, err := chosenSessions(c, client, 0)
	if err != nil {
		return nil, err
	}
	return each.Of(all, func(s admin.Session) string { return s.ID }), nil
}

// kickSessions ends sessions one by one. A session that has ended meanwhile counts if it was chosen by a flag.
func kickSessions(c *cli.Context, client *admin.Client) error {
	ids, err := chosenIDs(c, client)
	if err != nil {
		return err
	}
	done, failed := kicked{IDs: []string{}}, []error(nil)
	for _, id := range ids {
		path := "/api/v1/sessions/" + url.PathEscape(id) + "/kick"
		err := client.Post(c.Context, path, admin.Kick{Text: c.String("text")}, nil)
		switch {
		case err == nil:
			done.IDs = append(done.IDs, id)
		case c.NArg() > 0 || !isRefused(err, http.StatusNotFound, http.StatusConflict):
			failed = append(failed, err)
		}
	}
	done.Kicked = len(done.IDs)
	text := words.Count(done.Kicked, "session")
	if done.Kicked == 1 {
		text = "session " + done.IDs[0]
	}
	if len(failed) == 0 || done.Kicked > 0 {
		if err := printDone(c, done, "kicked: %s", text); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
