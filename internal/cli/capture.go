package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/capture"
	"tidegate/internal/config"
	"tidegate/packaging/wireshark"
)

func captureCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "capture",
		Usage: "record the running proxy's datagrams for Wireshark and decode",
		Flags: append(rotationFlags(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, TakesFile: true,
				Usage: "write pcapng to `FILE`; - is standard output"},
			&cli.BoolFlag{Name: "force", Usage: "replace a file that exists"},
			jsonFlag,
			&cli.BoolFlag{Name: "lua", Usage: "write Wireshark's dissectors to standard output, and capture nothing"},
			&cli.StringFlag{Name: "session", Usage: "record only session `ID`, until it ends"},
			&cli.StringFlag{Name: "client", Usage: "record only clients of `ADDRESS`, or of a network such as 203.0.113.0/24"},
			&cli.StringFlag{Name: "route", Usage: "record only the route `NAME`"},
			&cli.StringFlag{Name: "upstream", Usage: "record only the upstream `NAME`, with the checks of its servers"},
			durationFlag(cli.GenericFlag{Name: "last", Usage: "save the `TIME` until now, from the black box ([record])",
				DefaultText: "from now on"}, 0),
			durationFlag(cli.GenericFlag{Name: "for", Usage: "end after `TIME`", DefaultText: "Ctrl-C"}, 0),
			&cli.Uint64Flag{Name: "count", Usage: "end after `N` datagrams", DefaultText: "all"},
			&cli.StringFlag{Name: "max-size", Usage: "end before the file has more than `SIZE`, for example 64MiB",
				DefaultText: "any"},
		),
		Description: "The file has both sides of a session, as the interfaces client and upstream, in both directions.\n" +
			"Each datagram is unchanged, with the session's ID as a comment. Datagrams that the proxy drops are\n" +
			"included, datagrams that the kernel drops are not. During a capture the proxy itself forwards the\n" +
			"kernel's sessions.\n\n" +
			"With --last, the file has earlier datagrams, also of sessions that have ended. The proxy must keep\n" +
			"them: see [record] in the configuration.\n\n" +
			examples("tidegate capture --session 1 --for 1s -o session.pcapng",
				"tidegate capture --client 203.0.113.0/24 --for 1s --max-size 64MiB -o player.pcapng",
				"tidegate capture --last 30s --session 1 -o before.pcapng", "tidegate capture --lua",
				"tidegate capture --rotate-size 64MiB --rotate-every 10m --keep 6 --for 1s -o ring.pcapng"),
	}, captureTo)
}

// captureTo captures until a limit of the flags or the user ends it. Then it prints the number of datagrams.
func captureTo(c *cli.Context, client *admin.Client) error {
	if c.Bool("lua") {
		_, err := io.WriteString(c.App.Writer, wireshark.Dissector)
		return err
	}
	limits, err := captureLimits(c)
	if err != nil {
		return misuse(err)
	}
	ctx := c.Context
	if limit := durationOf(c, "for"); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	stream, err := client.Stream(ctx, captureSource(c))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // everything needed has been read
	file, err := createCapture(c, &limits)
	if err != nil {
		return err
	}
	if !c.Bool("json") && !c.IsSet("last") {
		how := ""
		if !c.IsSet("for") && !c.IsSet("count") {
			how = "; stop with Ctrl-C"
		}
		fmt.Fprintf(c.App.ErrWriter, "capturing to %s%s\n", c.String("output"), how)
	}
	totals, err := capture.Copy(file, stream, limits)
	if failed := file.Close(); err == nil || ctx.Err() != nil {
		err = failed
	}
	if c.Bool("json") {
		_ = json.NewEncoder(c.App.ErrWriter).Encode(totals) // standard output may have the capture
	} else {
		tellCaptured(c, totals)
		tellDissectors(c, client, file.names[len(file.names)-1])
	}
	early := err == nil && totals.Ended && ctx.Err() == nil && !c.IsSet("last") && !c.IsSet("session")
	if early || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the proxy ended during the capture, or was upgraded; the file has what came before")
	}
	return err
}

// captureSource returns the path and the query of the datagrams: those to come, or those of the black boxes.
func captureSource(c *cli.Context) string {
	path, ask := "/api/v1/capture?", make(url.Values)
	if c.IsSet("last") {
		path = "/api/v1/recording?"
		ask.Set("last", durationOf(c, "last").String())
	}
	for _, name := range []string{"session", "client", "route", "upstream"} {
		if value := c.String(name); value != "" {
			ask.Set(name, value)
		}
	}
	return path + ask.Encode()
}

// captureLimits checks the flags.
func captureLimits(c *cli.Context) (limits capture.Limits, err error) {
	limits.Datagrams = c.Uint64("count")
	var size config.Size
	switch text := c.String("max-size"); {
	case c.String("output") == "":
		return limits, errors.New("want -o FILE")
	case c.String("output") == "-" && isTerminal(c.App.Writer):
		return limits, errors.New("-o -: a terminal cannot show a pcapng file; pipe it to a program")
	case c.IsSet("for") && durationOf(c, "for") <= 0:
		return limits, fmt.Errorf("--for %v: want more than 0s", durationOf(c, "for"))
	case c.IsSet("last") && durationOf(c, "last") <= 0:
		return limits, fmt.Errorf("--last %v: want more than 0s", durationOf(c, "last"))
	case c.IsSet("last") && (c.IsSet("for") || c.IsSet("route") || c.IsSet("upstream")):
		return limits, errors.New("--last: want it without --for, --route and --upstream")
	case c.IsSet("count") && limits.Datagrams == 0:
		return limits, errors.New("--count 0: want at least 1")
	case c.IsSet("max-size") && (size.UnmarshalText([]byte(text)) != nil || size == 0):
		return limits, fmt.Errorf("--max-size %q: want bytes with a unit, for example \"64MiB\"", text)
	}
	limits.Bytes = int64(size)
	if limits.Rotation, err = rotationOf(c); err == nil {
		err = mayCreate(c, c.String("output"))
	}
	return limits, err
}

func tellCaptured(c *cli.Context, t capture.Totals) {
	fmt.Fprintf(c.App.ErrWriter, "datagrams written: %d, left out: %d\n", t.Datagrams, t.LeftOut)
	if t.LeftOut > 0 {
		fmt.Fprintln(c.App.ErrWriter, "Some datagrams came too fast: capture fewer with --session or --client")
	}
}
