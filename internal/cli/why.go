package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/banfile"
	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/proxy"
	"tidegate/ratelimit"
)

func whyCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "why",
		Usage:     "tell which rule, ban or limit decides about an address now, and what of its was dropped last",
		ArgsUsage: "ADDRESS",
		Flags:     []cli.Flag{jsonFlag, configFlag},
		Description: "It asks the running proxy. Where none runs, it answers from the configuration and its files, and says so.\n\n" +
			examples("tidegate why 203.0.113.7", "tidegate why --json 2001:db8::1"),
		Action: func(c *cli.Context) error {
			if err := wantArguments(c, "ADDRESS"); err != nil {
				return err
			}
			address, err := netip.ParseAddr(c.Args().First())
			if err != nil {
				return misuse(fmt.Errorf("%q: want an IP address", c.Args().First()))
			}
			return why(c, address)
		},
	})
}

func why(c *cli.Context, address netip.Addr) error {
	path, err := configPath(c)
	if err != nil {
		return err
	}
	table, err := config.LoadAdmin(path)
	if err != nil {
		return faulty(err)
	}
	var answer admin.Why
	running := table.Listen != config.AdminOff
	if running {
		client := admin.NewClient(admin.Address(table.Listen), string(table.Token))
		err = client.Get(c.Context, "/api/v1/why?"+url.Values{"address": {address.String()}}.Encode(), &answer)
		running = !isAbsent(err)
	}
	if !running {
		answer, err = whyOffline(path, address)
	}
	switch {
	case err != nil:
		return orMisuse(err)
	case c.Bool("json"):
		return printJSON(c, answer)
	}
	printWhy(c.App.Writer, &answer)
	return nil
}

// isAbsent reports whether an error says that no proxy listens where one was asked.
func isAbsent(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial" && !failed.Timeout()
}

// whyOffline answers from a configuration and the files that it names.
func whyOffline(path string, address netip.Addr) (admin.Why, error) {
	settled, _, err := setup.Load(path)
	if err != nil {
		return admin.Why{}, faulty(err)
	}
	set, err := setup.Rules(settled)
	if err != nil {
		return admin.Why{}, faulty(err)
	}
	ban, err := storedBan(settled, address)
	if err != nil {
		return admin.Why{}, faulty(err)
	}
	address = address.Unmap().WithZone("")
	found := proxy.Why{
		Address: address, Place: set.Place(address), Ban: ban,
		Sources: proxy.JudgeSources(setup.Settings(settled, 1), set, address),
	}
	return admin.Explain(&found), nil
}

// storedBan is the ban in force of an address in the file of bans, or nil. The file is only read.
func storedBan(c *config.Config, address netip.Addr) (*ratelimit.Ban, error) {
	if c.Bans.File == "" {
		return nil, nil
	}
	stored, err := banfile.File(c.Path(c.Bans.File)).Read()
	if err != nil {
		return nil, fmt.Errorf("read bans: %w", err)
	}
	bans := ratelimit.NewBans(ratelimit.Terms{})
	for _, ban := range stored {
		bans.Add(ban)
	}
	return bans.Find(time.Now(), address), nil
}

// printWhy prints what decides about an address for people.
func printWhy(w io.Writer, y *admin.Why) {
	verb := map[string]string{"allow": "may come", "drop": "may not come", "depends": "may come to some listeners"}[y.Decision]
	fmt.Fprintf(w, "%s %s: %s\n", whose(y), verb, y.Because)
	for _, b := range y.Bans {
		until := "for ever"
		if !b.Until.IsZero() {
			until = "until " + b.Until.Local().Format(time.DateTime)
		}
		because := ""
		if b.Reason != "" {
			because = ": " + printable(b.Reason)
		}
		fmt.Fprintf(w, "  banned   %s by %s %s%s\n", b.Prefix, printable(b.Author), until, because)
	}
	for _, r := range y.Rules {
		name := r.Rule
		if name == "" {
			name = "no rule"
		}
		seen := ""
		if len(r.Observed) > 0 {
			seen = " (observed by " + strings.Join(r.Observed, ", ") + ")"
		}
		fmt.Fprintf(w, "  rule     at %s: %s, %s%s\n", r.Listener, name, r.Verdict, seen)
	}
	for _, l := range y.Limits {
		of := "newcomers"
		if l.Session != "" {
			of = "session " + l.Session
		}
		fmt.Fprintf(w, "  limit    %s of %s is used up: %s\n", l.Limit, of, l.Verdict)
	}
	for i := range y.Sessions {
		s := &y.Sessions[i]
		fmt.Fprintf(w, "  session  %s at %s, %s, on %s\n", s.ID, s.Listener, s.State, s.Server.Address)
	}
	printDrops(w, y.Drops)
	if !y.Running {
		fmt.Fprintln(w, "No proxy runs here: this is what the configuration and its files say.")
	}
}

func printDrops(w io.Writer, drops []admin.WhyDrop) {
	for _, d := range drops {
		cause := ""
		if d.Cause != "" {
			cause = ", " + d.Cause
		}
		fmt.Fprintf(w, "  dropped  %s  %s at %s from %s, %d bytes%s (%d in a row)\n",
			d.At.Local().Format(time.DateTime), d.Reason, d.Listener, d.From, d.Bytes, cause, d.Times)
	}
}

// whose is an address with where it is.
func whose(y *admin.Why) string {
	var place []string
	if y.Country != "" {
		place = append(place, y.Country)
	}
	if y.Network != 0 {
		place = append(place, strings.TrimSpace(fmt.Sprintf("AS%d %s", y.Network, y.Holder)))
	}
	if len(place) == 0 {
		return y.Address
	}
	return y.Address + " (" + strings.Join(place, ", ") + ")"
}
