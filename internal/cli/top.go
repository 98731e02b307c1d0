package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/top"
)

func topCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "top",
		Usage: "print the running proxy's traffic, round trips and drops each second",
		Description: "The round trips are means of all sessions. With more than 2,000 sessions, they are means of the\n" +
			"last samples. --json prints what the API streams at /api/v1/live. tidegate dashboard shows each player.\n\n" +
			examples("tidegate top --count 1", "tidegate top --json --count 1"),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object each second, and errors as JSON"},
			&cli.IntFlag{Name: "count", Usage: "end after `N` lines", DefaultText: "Ctrl-C"},
		},
	}, showTop)
}

func showTop(c *cli.Context, client *admin.Client) error {
	count := c.Int("count")
	if c.IsSet("count") && count < 1 {
		return misuse(fmt.Errorf("--count %d: want at least 1", count))
	}
	began, heading := time.Now(), top.Heading
	encoder := json.NewEncoder(c.App.Writer)
	return top.Watch(c.Context, client, count, func(l *admin.Live) error {
		if c.Bool("json") {
			return encoder.Encode(l)
		}
		_, err := fmt.Fprint(c.App.Writer, heading, top.Line(l, began))
		heading = ""
		return err
	})
}

func dashboardCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "dashboard",
		Usage: "serve the dashboard of the running proxy for a browser on this machine",
		Description: "Opens a port that only this machine reaches, and prints a link. The link works once; the next\n" +
			"one is printed after that. The command ends with Ctrl+C, and then the pages stop.\n\n" +
			examples("tidegate dashboard", "tidegate dashboard --port 9480"),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Usage: "listen at this `PORT` of 127.0.0.1", DefaultText: "a free one"},
		},
	}, serveDashboard)
}

// dashboardHeaderTime bounds the time in which a browser sends the header of a request.
const dashboardHeaderTime = 10 * time.Second

func serveDashboard(c *cli.Context, client *admin.Client) error {
	port := c.Int("port")
	if port < 0 || port > 65535 {
		return misuse(fmt.Errorf("--port %d: want 1 to 65535", port))
	}
	var version admin.Version
	if err := client.Get(c.Context, "/api/v1/version", &version); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(c.Context, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	front := admin.NewFront(client, listener.Addr().String(), func(link string) {
		fmt.Fprintf(c.App.Writer, "For another browser: %s\n", link)
	})
	fmt.Fprintf(c.App.Writer, "Open %s\nPress Ctrl+C to end.\n", front.Link())
	web := &http.Server{Handler: front, ReadHeaderTimeout: dashboardHeaderTime}
	stop := context.AfterFunc(c.Context, func() { _ = web.Close() })
	defer stop()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
