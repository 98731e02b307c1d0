package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/table"
)

func sessionsCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "sessions",
		Usage: "list, show, move and end the sessions of the running proxy",
		Subcommands: []*cli.Command{
			operatorCommand(&cli.Command{
				Name:  "list",
				Usage: "list sessions, oldest first",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "listener", Usage: "list only sessions of the listener `NAME`"},
					&cli.StringFlag{Name: "route", Usage: "list only sessions of the route `NAME`"},
					&cli.IntFlag{Name: "limit", Usage: "list at most `N` sessions", DefaultText: "all"},
					&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each session"},
				},
				Description: examples("tidegate sessions list", "tidegate sessions list --listener public --limit 20 --json"),
			}, listSessions),
			operatorCommand(&cli.Command{
				Name: "show", Usage: "show one session and its two connections",
				Flags:       []cli.Flag{jsonFlag},
				Description: examples("tidegate sessions show 1"),
			}, showSession, "ID"),
			operatorCommand(&cli.Command{
				Name: "transfer", Usage: "move a session to another server of its upstream",
				Description: "The client's data from its join goes to the new server. Reliable messages of the\n" +
					"client wait meanwhile.\n\n" +
					examples("tidegate sessions transfer 1 10.0.0.6:19132"),
			}, transferSession, "ID", "SERVER"),
			operatorCommand(&cli.Command{
				Name: "kick", Usage: "end a session with a goodbye in the client's protocol",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "text", Usage: "send `TEXT` to the client, if its protocol has texts (Riptide)"},
				},
				Description: examples(`tidegate sessions kick --text "You were away for too long" 1`),
			}, kickSession, "ID"),
		},
	})
}

// sessionsPage is the number of sessions in one request.
const sessionsPage = 1000

func listSessions(c *cli.Context, client *admin.Client) error {
	limit := c.Int("limit")
	if c.IsSet("limit") && limit < 1 {
		return misuse(fmt.Errorf("--limit %d: want at least 1", limit))
	}
	ask := url.Values{"listener": {c.String("listener")}, "route": {c.String("route")}}
	var rows [][]string
	for count, more := 0, true; more; {
		size := sessionsPage
		if limit > 0 {
			size = min(size, limit-count)
		}
		ask.Set("limit", strconv.Itoa(size))
		var page admin.Sessions
		if err := client.Get(c.Context, "/api/v1/sessions?"+ask.Encode(), &page); err != nil {
			return err
		}
		for i := range page.Sessions {
			s := &page.Sessions[i]
			if !c.Bool("json") {
				rows = append(rows, sessionRow(s))
			} else if err := printJSON(c, s); err != nil {
				return err
			}
		}
		ask.Set("after", page.Next)
		count += len(page.Sessions)
		more = page.Next != "" && (limit == 0 || count < limit)
	}
	if !c.Bool("json") {
		printTable(c.App.Writer, sessionColumns, rows)
	}
	return nil
}

var sessionColumns = []table.Column{
	{Name: "ID"}, {Name: "CLIENT"}, {Name: "PROTOCOL", Drop: 2}, {Name: "STATE"}, {Name: "AGE", Number: true},
	{Name: "RTT", Number: true, Drop: 1}, {Name: "SERVER", Drop: 3}, {Name: "SERVER RTT", Number: true, Drop: 8},
	{Name: "TO SERVER", Number: true, Drop: 5}, {Name: "TO CLIENT", Number: true, Drop: 4},
	{Name: "QUEUED", Number: true, Drop: 6}, {Name: "LISTENER", Drop: 7},
}

func sessionRow(s *admin.Session) []string {
	return []string{
		s.ID, s.Client.Address, s.Client.Protocol, s.State, age(s.Age), rtt(s.Client.RTT), cmp.Or(s.Server.Address, "-"),
		rtt(s.Server.RTT), strconv.FormatUint(s.Client.Messages, 10), strconv.FormatUint(s.Server.Messages, 10),
		strconv.Itoa(s.Client.Queued + s.Server.Queued), s.Listener,
	}
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
	number := func(of func(*admin.Side) uint64) []string {
		return []string{strconv.FormatUint(of(&s.Client), 10), strconv.FormatUint(of(&s.Server), 10)}
	}
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
		rows = append(rows, append([]string{figure.name}, number(figure.of)...))
	}
	printTable(c.App.Writer, []table.Column{{Name: ""}, {Name: "CLIENT", Number: true}, {Name: "SERVER", Number: true}},
		rows)
	return nil
}

func transferSession(c *cli.Context, client *admin.Client) error {
	id, server := c.Args().Get(0), c.Args().Get(1)
	var done struct{}
	path := "/api/v1/sessions/" + url.PathEscape(id) + "/transfer"
	if err := client.Post(c.Context, path, admin.Transfer{Server: server}, &done); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "session %s moves to %s\n", id, server)
	return nil
}

func kickSession(c *cli.Context, client *admin.Client) error {
	id := c.Args().First()
	var done struct{}
	err := client.Post(c.Context, "/api/v1/sessions/"+url.PathEscape(id)+"/kick", admin.Kick{Text: c.String("text")},
		&done)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "session %s ends\n", id)
	return nil
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
