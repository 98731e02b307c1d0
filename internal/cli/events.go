package cli

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

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
