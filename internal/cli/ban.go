package cli

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/banfile"
	"tidegate/internal/cidr"
	"tidegate/internal/each"
	"tidegate/internal/words"
	"tidegate/ratelimit"
)

func banCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "ban",
		Usage: "ban networks: add, remove and list bans",
		Description: "Changes the ban file of [bans], with or without a running proxy. A running proxy applies the\n" +
			"change at once, and ends the sessions of banned clients. With --admin or --context the commands ask that\n" +
			"proxy, and need no file.",
		Subcommands: []*cli.Command{banAddCommand(), banDelCommand(), banListCommand(), banImportCommand()},
	})
}

var (
	banFileFlag = &cli.StringFlag{
		Name: "file", TakesFile: true, Usage: "use the ban file `FILE`, not the one of the configuration",
	}
	banJSONFlag = &cli.BoolFlag{Name: "json", Usage: "print bans as JSON, one on each line"}
)

// banFlags are the flags of commands that ban.
func banFlags() []cli.Flag {
	return append(targetFlags(), banFileFlag, banJSONFlag,
		durationFlag(cli.GenericFlag{Name: "for", Usage: "ban for `DURATION`, for example 90m or 7d",
			DefaultText: "for ever"}, 0),
		&cli.StringFlag{Name: "reason", Usage: "record `TEXT` as the reason"},
		&cli.StringFlag{Name: "author", Usage: "record `NAME` as the author", DefaultText: "your user name"},
	)
}

func banAddCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "add",
		Usage:       "ban networks, or change the time of their bans",
		ArgsUsage:   "PREFIX...",
		Description: examples("tidegate ban add 192.0.2.7 2001:db8:1::/48 --for 24h --reason cheating"),
		Flags:       banFlags(),
		Action: func(c *cli.Context) error {
			networks, err := arguments(c)
			if err != nil {
				return err
			}
			return impose(c, networks)
		},
	})
}

func banDelCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "del",
		Usage:       "remove bans and their history",
		ArgsUsage:   "PREFIX...",
		Description: examples("tidegate ban del 192.0.2.7"),
		Flags:       append(targetFlags(), banFileFlag, banJSONFlag),
		Action: func(c *cli.Context) error {
			networks, err := arguments(c)
			if err != nil {
				return err
			}
			book, err := openBook(c)
			if err == nil {
				err = book.pardon(c, networks)
			}
			if err != nil {
				return err
			}
			return printDone(c, struct {
				Removed []netip.Prefix `json:"removed"`
			}{networks}, "no ban left for %s", bannedNetworks(networks))
		},
	})
}

func banListCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "list",
		Usage:       "list the bans in force",
		Description: examples("tidegate ban list", "tidegate ban list --all --json"),
		Flags: append(targetFlags(), banFileFlag, banJSONFlag, &cli.BoolFlag{
			Name: "all", Usage: "also list expired bans, which make a network's next ban longer",
		}),
		Action: func(c *cli.Context) error {
			book, err := openBook(c)
			if err != nil {
				return err
			}
			all, err := book.all(c)
			if err != nil {
				return err
			}
			now := time.Now()
			all = slices.DeleteFunc(all, func(b ratelimit.Ban) bool { return !b.Active(now) && !c.Bool("all") })
			return printBans(c, all, now)
		},
	})
}

func banImportCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "import",
		Usage:     "ban all networks of a list",
		ArgsUsage: "FILE",
		Description: "FILE has a prefix or address on each line, and comments from # or ; on; - is standard input.\n\n" +
			examples("tidegate ban import --for 7d --reason abuse blocklist.txt"),
		Flags: banFlags(),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return misuse(errors.New("ban import: want one FILE"))
			}
			networks, err := readNetworks(c.App.Reader, c.Args().First())
			if err != nil {
				return err
			}
			return impose(c, networks)
		},
	})
}

// arguments returns the networks of a command line.
func arguments(c *cli.Context) ([]netip.Prefix, error) {
	if c.NArg() == 0 {
		return nil, misuse(fmt.Errorf("ban %s: want at least one PREFIX", c.Command.Name))
	}
	var networks []netip.Prefix
	for _, text := range c.Args().Slice() {
		p, err := cidr.Parse(text)
		if err != nil {
			return nil, misuse(err)
		}
		networks = append(networks, p)
	}
	return networks, nil
}

// readNetworks reads a list of networks from a file, or from stdin if its name is "-".
func readNetworks(stdin io.Reader, name string) ([]netip.Prefix, error) {
	if name == "-" {
		return cidr.Read(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	networks, err := cidr.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return networks, nil
}

// impose bans networks as the flags say.
func impose(c *cli.Context, networks []netip.Prefix) error {
	for _, flag := range []string{"reason", "author"} {
		if n := len(c.String(flag)); n > banfile.MaxText {
			return misuse(fmt.Errorf("--%s has %d bytes: want at most %d", flag, n, banfile.MaxText))
		}
	}
	length := durationOf(c, "for")
	if length < 0 || c.IsSet("for") && length == 0 {
		return misuse(fmt.Errorf(`--for %s: want a duration, for example "24h"; without the flag a ban does not end`, length))
	}
	now := time.Now().Truncate(time.Second).UTC()
	ban := ratelimit.Ban{Reason: c.String("reason"), Author: author(c), Since: now}
	if length > 0 {
		ban.Until = now.Add(length)
	}
	var imposed []ratelimit.Ban
	for _, ban.Prefix = range networks {
		imposed = append(imposed, ban)
	}
	book, err := openBook(c)
	if err == nil {
		err = book.impose(c, imposed)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printBans(c, imposed, now)
	}
	until := "forever"
	if length > 0 {
		until = "until " + ban.Until.Local().Format(time.DateTime)
	}
	fmt.Fprintf(c.App.Writer, "%s banned %s\n", bannedNetworks(networks), until)
	return nil
}

// banBook has the bans that a command reads or changes: those of a running proxy, or of a ban file.
type banBook interface {
	impose(c *cli.Context, bans []ratelimit.Ban) error
	pardon(c *cli.Context, networks []netip.Prefix) error // an error also names the networks without a ban
	all(c *cli.Context) ([]ratelimit.Ban, error)
}

// openBook returns the book that the command line or the environment names.
func openBook(c *cli.Context) (banBook, error) {
	client, err := remoteBans(c)
	if err != nil || client != nil {
		return remoteBook{client}, err
	}
	return openBans(c)
}

// bannedNetworks names networks for people: all of a few, else their number.
func bannedNetworks(networks []netip.Prefix) string {
	if len(networks) > 3 {
		return words.Count(len(networks), "network")
	}
	return strings.Join(each.Of(networks, netip.Prefix.String), ", ")
}
