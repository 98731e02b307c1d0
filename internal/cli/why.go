package cli

import (
	"cmp"
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
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

func whyCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "why",
		Usage:     "explain which ban, rule or limit applies to an address, and show its recent drops",
		ArgsUsage: "ADDRESS",
		Flags:     append(targetFlags(), jsonFlag),
		Description: "The running proxy answers. Without one, the answer comes from the configuration and its\n" +
			"files, and says so.\n\n" +
			examples("tidegate why 203.0.113.7", "tidegate why --json 2001:db8::1"),
		Action: func(c *cli.Context) error {
			if err := wantArguments(c, "ADDRESS"); err != nil {
				return err
			}
			address, err := netip.ParseAddr(c.Args().First())
			if err != nil {
				return misuse(fmt.Errorf("%q: want one IP address: the answer may differ within a network", c.Args().First()))
			}
			return why(c, address)
		},
	})
}

func why(c *cli.Context, address netip.Addr) error {
	var answer admin.Why
	client, err := targetOf(c).client()
	if err == nil {
		err = client.Get(c.Context, "/api/v1/why?"+url.Values{"address": {address.String()}}.Encode(), &answer)
	}
	if absent := isAbsent(err) && !targetOf(c).isNamed(); absent || errors.Is(err, errAdminOff) {
		path, missing := configPath(c)
		if missing != nil {
			return missing
		}
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

// isAbsent reports whether an error means that no proxy listens at the admin address.
func isAbsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial" && !failed.Timeout()
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
	found := relay.Why{
		Address: address, Place: set.Place(address), Ban: ban,
		Sources: relay.JudgeSources(setup.Settings(settled, 1, setup.NewSecrets()), set, address),
	}
	return admin.Explain(&found), nil
}

// storedBan returns the ban in force for an address in the ban file, or nil. It only reads the file.
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

// printWhy prints the decision about an address for people.
func printWhy(w io.Writer, y *admin.Why) {
	verb := map[string]string{"allow": "is allowed", "drop": "is not allowed",
		"depends": "is allowed at some listeners"}[y.Decision]
	fmt.Fprintf(w, "%s %s: %s\n", described(y), verb, y.Because)
	for _, b := range y.Bans {
		until := "forever"
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
		seen := ""
		if len(r.Observed) > 0 {
			seen = " (observed by " + strings.Join(r.Observed, ", ") + ")"
		}
		fmt.Fprintf(w, "  rule     at %s: %s, %s%s\n", r.Listener, cmp.Or(r.Rule, "no rule"), r.Verdict, seen)
	}
	for _, l := range y.Limits {
		of := "new clients"
		if l.Session != "" {
			of = "session " + l.Session
		}
		fmt.Fprintf(w, "  limit    %s of %s is exhausted: %s\n", l.Limit, of, l.Verdict)
	}
	for i := range y.Sessions {
		s := &y.Sessions[i]
		fmt.Fprintf(w, "  session  %s at %s, %s, on %s\n", s.ID, s.Listener, s.State, s.Server.Address)
	}
	for _, join := range y.Joins {
		fmt.Fprintf(w, "  join     %s\n", printable(join))
	}
	if y.Kernel != "" {
		fmt.Fprintf(w, "  kernel   %s\n", y.Kernel)
	}
	printDrops(w, y.Drops)
	if !y.Running {
		fmt.Fprintln(w, "No proxy is running: this answer comes from the configuration and its files.")
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

// described returns an address with its location.
func described(y *admin.Why) string {
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
