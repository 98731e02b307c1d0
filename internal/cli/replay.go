package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/decode"
	"tidegate/internal/replay"
	"tidegate/internal/words"
)

func replayCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "replay",
		Usage: "play the clients of a capture against a server, and report what differs",
		Description: "FILE is pcapng of capture, or any file that decode reads. The clients join anew, and send the\n" +
			"messages that they sent in the capture, at the same times. Their addresses and IDs are new ones.\n\n" +
			"Every protocol can be played. Encrypted messages cannot: their keys are new in each session. A Bedrock\n" +
			"server that encrypts ends the session at the first encrypted message. RUDP joins messages, so only all\n" +
			"answers together are compared.\n\n" +
			examples("tidegate replay game.pcap --to 127.0.0.1:7777 --speed 10",
				"tidegate replay game.pcap --to 127.0.0.1:7777 --speed max --json"),
		ArgsUsage: "FILE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the server at `ADDRESS`, as HOST:PORT"},
			&cli.StringFlag{Name: "speed", Value: "1", Usage: "`FACTOR` of the capture's speed, or max"},
			durationFlag(cli.GenericFlag{Name: "wait", Usage: "wait `TIME` for missing answers"}, 2*time.Second),
			&cli.StringFlag{Name: "protocol", Aliases: []string{"p"}, Usage: "treat all datagrams as `NAME`: " +
				strings.Join(decode.Protocols(), ", ")},
			&cli.UintFlag{Name: "port", Usage: "of pcap files, play only clients of the server at port `N`", DefaultText: "all"},
			&cli.BoolFlag{Name: "upstream",
				Usage: "play the proxy's side towards its servers, not the clients (pcapng of capture)"},
			jsonFlag,
		},
		Action: replayFile,
	})
}

func replayFile(c *cli.Context) error {
	o, err := replayOptions(c)
	if err != nil {
		return misuse(err)
	}
	if o.To, err = resolve(c.Context, c.String("to")); err != nil {
		return err
	}
	report, err := replay.Run(c.Context, c.Args().First(), o)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = printJSON(c, report)
	} else {
		printReplay(c.App.Writer, report)
	}
	if err == nil && !report.Same {
		return cli.Exit("", 1)
	}
	return err
}

// replayOptions checks the arguments.
func replayOptions(c *cli.Context) (o replay.Options, err error) {
	name, port := c.String("protocol"), c.Uint("port")
	factor, err := strconv.ParseFloat(c.String("speed"), 64)
	if c.String("speed") == "max" {
		factor, err = 0, nil
	} else if err == nil && !(factor >= 0.001 && factor <= 1000) {
		err = errors.New("out of range")
	}
	switch {
	case c.NArg() != 1:
		return o, errors.New("want one FILE")
	case c.String("to") == "":
		return o, errors.New("want --to HOST:PORT")
	case err != nil:
		return o, fmt.Errorf("--speed %q: want 0.001 to 1000, or max", c.String("speed"))
	case durationOf(c, "wait") < 0:
		return o, fmt.Errorf("--wait %v: want 0s or more", durationOf(c, "wait"))
	case name != "" && !slices.Contains(decode.Protocols(), name):
		return o, fmt.Errorf("--protocol %q: want %s", name, strings.Join(decode.Protocols(), ", "))
	case c.IsSet("port") && (port < 1 || port > 65535):
		return o, fmt.Errorf("--port %d: want 1 to 65535", port)
	}
	return replay.Options{
		Speed: replay.Speed(factor), Wait: durationOf(c, "wait"), Protocol: name, Port: uint16(port),
		Upstream: c.Bool("upstream"),
	}, nil
}

// printReplay prints a report for people.
func printReplay(w io.Writer, r *replay.Report) {
	differs := 0
	for i := range r.Conversations {
		one := &r.Conversations[i]
		if !one.Same {
			differs++
		}
		printComparison(w, one)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "%s: not played: %s\n", s.Client, s.Why)
	}
	if r.Unknown > 0 {
		fmt.Fprintf(w, "%s of no known protocol not played\n", words.Count(r.Unknown, "conversation"))
	}
	if r.Damage != "" {
		fmt.Fprintf(w, "the capture is damaged: %s\n", r.Damage)
	}
	if differs == 0 {
		fmt.Fprintf(w, "same: %s\n", words.Count(len(r.Conversations), "conversation"))
		return
	}
	fmt.Fprintf(w, "DIFFERENT: %d of %s\n", differs, words.Count(len(r.Conversations), "conversation"))
}

func printComparison(w io.Writer, c *replay.Comparison) {
	verdict := "same"
	if !c.Same {
		verdict = "different"
	}
	fmt.Fprintf(w, "%s %s: %s: %d sent, %d answers in the capture, %d now\n", c.Client, c.Protocol, verdict, c.Sent,
		c.Captured, c.Answered)
	for why, n := range c.Unsent {
		fmt.Fprintf(w, "  not sent: %s: %s\n", words.Count(n, "message"), why)
	}
	for _, id := range c.IDs {
		fmt.Fprintf(w, "  message %s: %d in the capture, %d now\n", id.ID, id.Captured, id.Now)
	}
	printContents(w, "missing now", c.Missing)
	printContents(w, "new", c.New)
	if c.Order > 0 {
		fmt.Fprintf(w, "  order differs from message %d on\n", c.Order)
	}
	if c.Ended.Captured != c.Ended.Now {
		fmt.Fprintf(w, "  ended in the capture: %s; now: %s\n", c.Ended.Captured, c.Ended.Now)
	}
	if c.Note != "" {
		fmt.Fprintf(w, "  %s\n", c.Note)
	}
}

func printContents(w io.Writer, what string, all []replay.Content) {
	for i := range all {
		m := &all[i]
		fmt.Fprintf(w, "  %s: %d times message %s, %s, %s, hash %s\n", what, m.Count, m.ID, m.Mode,
			words.Count(m.Bytes, "byte"), m.Hash)
	}
}
