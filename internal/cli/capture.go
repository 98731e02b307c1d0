package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/capture"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/setup"
	"tidegate/packaging/wireshark"
)

func captureCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "capture",
		Usage: "record the running proxy's datagrams for Wireshark and decode",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "rotate-size", DefaultText: "one file",
				Usage: "begin another file, FILE_NUMBER_TIME, before one has more than `SIZE`"},
			durationFlag(cli.GenericFlag{Name: "rotate-every", DefaultText: "one file",
				Usage: "begin another file, FILE_NUMBER_TIME, after `TIME`"}, 0),
			&cli.IntFlag{Name: "keep", Usage: "keep only the last `N` files of a rotation", DefaultText: "all"},
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
		},
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
		fmt.Fprintf(c.App.ErrWriter, "datagrams written: %d, left out: %d\n", totals.Datagrams, totals.LeftOut)
		if totals.LeftOut > 0 {
			fmt.Fprintln(c.App.ErrWriter, "Some datagrams came too fast: capture fewer with --session or --client")
		}
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

// captureFiles are the files of a capture, one after the other.
type captureFiles struct {
	io.WriteCloser // the present one
	c              *cli.Context
	rotated        bool
	begun          int
	names          []string // the kept ones, the present one last
}

// createCapture creates the first file, and adds the rotation of the flags to the limits.
func createCapture(c *cli.Context, limits *capture.Limits) (*captureFiles, error) {
	f := &captureFiles{c: c, rotated: limits.Rotation.Bytes > 0 || limits.Rotation.Every > 0}
	if f.rotated {
		limits.Rotation.Next = f.next
	}
	_, err := f.next(time.Now())
	return f, err
}

// rotationOf checks the flags.
func rotationOf(c *cli.Context) (r capture.Rotation, err error) {
	var size config.Size
	text := c.String("rotate-size")
	r.Every = durationOf(c, "rotate-every")
	switch any := c.IsSet("rotate-size") || c.IsSet("rotate-every"); {
	case c.IsSet("rotate-size") && (size.UnmarshalText([]byte(text)) != nil || size == 0):
		return r, fmt.Errorf("--rotate-size %q: want bytes with a unit, for example \"64MiB\"", text)
	case c.IsSet("rotate-every") && r.Every <= 0:
		return r, fmt.Errorf("--rotate-every %v: want more than 0s", r.Every)
	case c.IsSet("keep") && (c.Int("keep") < 1 || !any):
		return r, errors.New("--keep: want at least 1, with --rotate-size or --rotate-every")
	case any && c.String("output") == "-":
		return r, errors.New("-o -: want a file for a rotation")
	}
	r.Bytes = int64(size)
	return r, nil
}

// next begins a file, and removes the oldest one beyond --keep.
func (f *captureFiles) next(at time.Time) (io.Writer, error) {
	name := f.c.String("output")
	if f.rotated {
		f.begun++
		end := filepath.Ext(name)
		name = fmt.Sprintf("%s_%05d_%s%s", strings.TrimSuffix(name, end), f.begun, at.Format("20060102150405"), end)
	}
	err := mayCreate(f.c, name)
	if err != nil {
		return nil, err
	}
	file, err := openCapture(f.c, name)
	if err != nil {
		return nil, err
	}
	if f.WriteCloser != nil {
		err = f.Close()
	}
	f.WriteCloser, f.names = file, append(f.names, name)
	if keep := f.c.Int("keep"); keep > 0 && len(f.names) > keep {
		err = errors.Join(err, os.Remove(f.names[0]))
		f.names = f.names[1:]
	}
	return file, err
}

// mayCreate refuses the path of a regular file without --force.
func mayCreate(c *cli.Context, path string) error {
	if old, err := os.Stat(path); err != nil || !old.Mode().IsRegular() || c.Bool("force") {
		return nil
	}
	return misuse(fmt.Errorf("%s exists: choose another file, or replace it with --force", path))
}

// openCapture creates a file. Only its owner may read the clients' messages, also if the file existed before.
func openCapture(c *cli.Context, path string) (io.WriteCloser, error) {
	if path == "-" {
		return unclosed{rawOutput(c)}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() { // not of /dev/null or a pipe
		err = errors.Join(file.Chmod(0o600), file.Truncate(0))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unclosed is a Writer that its owner closes.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }

// tellDissectors prints the line that shows a capture's messages in Wireshark, with the ports of the running proxy.
// Without an answer of the proxy it prints nothing.
func tellDissectors(c *cli.Context, client *admin.Client, file string) {
	if file == "-" {
		return
	}
	var running admin.Configuration
	if err := client.Get(c.Context, "/api/v1/config", &running); err != nil {
		return
	}
	settled, _, err := setup.Parse("", []byte(running.TOML))
	if err != nil {
		return
	}
	if ports := decodeAs(settled); len(ports) > 0 {
		fmt.Fprintf(c.App.ErrWriter, "tidegate capture --lua > tidegate.lua && tshark -X lua_script:tidegate.lua %s -r %s\n",
			strings.Join(ports, " "), file)
	}
}

// mostPorts bounds the ports of one line.
const mostPorts = 64

// decodeAs returns the flags of tshark that name the protocol of each UDP port in a configuration. A listener with
// several protocols counts as its first one.
func decodeAs(c *config.Config) (flags []string) {
	known := make(map[int]bool)
	add := func(at config.Address, protocol string) {
		d := protocols.Find(protocol)
		if d == nil || wireshark.Names[d.Name] == "" {
			return
		}
		for i := range at.Ports() {
			if port := int(at.Port()) + i; port > 0 && !known[port] && len(flags) < 2*mostPorts {
				known[port] = true
				flags = append(flags, "-d", fmt.Sprintf("udp.port==%d,%s", port, wireshark.Names[d.Name]))
			}
		}
	}
	for i := range c.Listeners {
		if l := &c.Listeners[i]; l.Transport == config.UDP && len(l.Protocols) > 0 {
			add(l.Address, l.Protocols[0])
		}
	}
	for i := range c.Upstreams {
		for j := range c.Upstreams[i].Servers {
			add(c.Upstreams[i].Servers[j].Address, c.Upstreams[i].Protocol)
		}
	}
	return flags
}
