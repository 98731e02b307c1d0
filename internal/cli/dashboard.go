package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

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
