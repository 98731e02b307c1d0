package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/user"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/banfile"
	"tidegate/internal/cidr"
	"tidegate/internal/config"
	"tidegate/internal/fleet/view"
	"tidegate/internal/setup"
	"tidegate/internal/table"
	"tidegate/ratelimit"
)

// author returns the author of a ban: the flag's, or the user.
func author(c *cli.Context) string {
	if name := c.String("author"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != ratelimit.Automatic {
		return u.Username
	}
	return "operator"
}

// banStore is the ban file of a command.
type banStore struct {
	file banfile.File
	bans *ratelimit.Bans
	now  time.Time
}

// openBans reads the file of --file, or that of the configuration.
func openBans(c *cli.Context) (*banStore, error) {
	terms := config.Default().Bans
	terms.File = c.String("file")
	if terms.File == "" {
		path, err := configPath(c)
		if err != nil {
			return nil, err
		}
		if terms, err = config.LoadBans(path); err != nil {
			return nil, faulty(err)
		}
		if terms.File == "" {
			return nil, fmt.Errorf(`%s has bans.file = "": there is no ban file`, path)
		}
	}
	book := &banStore{banfile.File(terms.File), ratelimit.NewBans(setup.BanTerms(terms)),
		time.Now().Truncate(time.Second).UTC()}
	err := book.save()
	if _, unwritten := errors.AsType[*banfile.WriteError](err); unwritten {
		return book, nil // a command that changes bans finds the error when it saves them
	}
	return book, err
}

func (b *banStore) impose(c *cli.Context, bans []ratelimit.Ban) error {
	for _, ban := range bans {
		b.bans.Add(ban)
	}
	return b.enforce(c)
}

func (b *banStore) pardon(c *cli.Context, networks []netip.Prefix) error {
	var missing []error
	for _, n := range networks {
		if !b.bans.Remove(n) {
			missing = append(missing, fmt.Errorf("%s is not banned", n))
		}
	}
	return errors.Join(append(missing, b.enforce(c))...)
}

func (b *banStore) all(*cli.Context) ([]ratelimit.Ban, error) { return b.bans.All(), nil }

// save merges the bans with those of the file.
func (b *banStore) save() error { return b.file.Sync(b.now, b.bans) }

// tellTime bounds the wait for a running proxy to read the ban file.
const tellTime = 5 * time.Second

// enforce saves the bans, and waits until a running proxy of the configuration has them in force. Without an answer of
// a proxy it returns at once: a running proxy watches the file.
func (b *banStore) enforce(c *cli.Context) error {
	if err := b.save(); err != nil {
		return err
	}
	if c.String("file") != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, tellTime)
	defer cancel()
	if client, err := targetOf(c).client(); err == nil {
		if client.Post(ctx, "/api/v1/bans/sync", nil, nil) == nil {
			tellUnshared(c, client)
		}
	}
	return nil
}

// printBans prints bans for people or as JSON.
func printBans(c *cli.Context, bans []ratelimit.Ban, now time.Time) error {
	if c.Bool("json") {
		out := json.NewEncoder(c.App.Writer)
		for _, b := range bans {
			if err := out.Encode(banfile.RecordOf(b)); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, len(bans))
	for i, b := range bans {
		rows[i] = []string{b.Prefix.String(), remaining(&b, now), printable(b.Author), printable(b.Reason)}
	}
	printTable(c.App.Writer, []table.Column{{Name: "NETWORK"}, {Name: "LEFT"}, {Name: "BY", Drop: 1}, {Name: "REASON"}},
		rows)
	return nil
}

// remaining returns the rest of a ban's time.
func remaining(b *ratelimit.Ban, now time.Time) string {
	switch {
	case b.Until.IsZero():
		return "forever"
	case !b.Active(now):
		return "over"
	}
	return config.Duration(b.Until.Sub(now).Round(time.Second)).String()
}

// remoteBans returns a client for a proxy that the command line or the environment names. Without one it returns nil:
// then the command changes the ban file.
func remoteBans(c *cli.Context) (*admin.Client, error) {
	to := targetOf(c)
	switch {
	case (c.IsSet("config") || c.IsSet("file")) && (c.IsSet("admin") || c.IsSet("context")):
		return nil, misuse(errors.New("--admin or --context, and --config or --file: want one of them"))
	case c.IsSet("file") || !to.isNamed():
		return nil, nil
	}
	return to.client()
}

// remoteBook has the bans of a running proxy.
type remoteBook struct{ *admin.Client }

func (r remoteBook) impose(c *cli.Context, bans []ratelimit.Ban) error {
	for _, b := range bans {
		order := admin.Ban{Prefix: b.Prefix.String(), Reason: b.Reason, Author: b.Author}
		if !b.Until.IsZero() {
			order.Seconds = b.Until.Sub(b.Since).Seconds()
		}
		if err := r.Post(c.Context, "/api/v1/bans", order, nil); err != nil {
			return orMisuse(err)
		}
	}
	tellUnshared(c, r.Client)
	return nil
}

func (r remoteBook) pardon(c *cli.Context, networks []netip.Prefix) error {
	var missing []error
	for _, network := range networks {
		err := r.Post(c.Context, "/api/v1/bans/remove", admin.Unban{Prefix: network.String()}, nil)
		switch {
		case isRefused(err, http.StatusNotFound):
			missing = append(missing, fmt.Errorf("%s is not banned", network))
		case err != nil:
			return orMisuse(err)
		}
	}
	tellUnshared(c, r.Client)
	return errors.Join(missing...)
}

// listedRemotely is the largest number of bans in an answer.
const listedRemotely = 10_000

// all returns the bans in force, the youngest first.
func (r remoteBook) all(c *cli.Context) ([]ratelimit.Ban, error) {
	var page admin.Bans
	if err := r.Get(c.Context, fmt.Sprintf("/api/v1/bans?limit=%d", listedRemotely), &page); err != nil {
		return nil, orMisuse(err)
	}
	all := make([]ratelimit.Ban, 0, len(page.Bans))
	for _, b := range page.Bans {
		prefix, err := cidr.Parse(b.Prefix)
		if err != nil {
			return nil, fmt.Errorf("the proxy's list of bans: %w", err)
		}
		all = append(all, ratelimit.Ban{
			Prefix: prefix, Reason: b.Reason, Author: b.Author, Since: b.Since, Until: b.Until,
		})
	}
	if page.Total > len(all) {
		fmt.Fprintf(c.App.ErrWriter, "the youngest %d of %d bans\n", len(all), page.Total)
	}
	return all, nil
}

// shareTime is how long a command waits for the fleet to have its change.
const shareTime = time.Second

// tellUnshared says on standard error if the fleet does not have the changes of a command. Without a fleet, or an
// answer, it says nothing.
func tellUnshared(c *cli.Context, client *admin.Client) {
	ctx, cancel := context.WithTimeout(c.Context, shareTime)
	defer cancel()
	var last view.Fleet
	_ = poll(ctx, func() (bool, error) {
		var state view.Fleet
		err := client.Get(ctx, "/api/v1/fleet", &state)
		if err == nil {
			last = state
		}
		return err != nil || !state.On || !state.Current || state.Waiting == 0, err
	})
	if why := last.Unshared(); why != "" {
		fmt.Fprintln(c.App.ErrWriter, "warning: in force here; not shared yet:", printable(why))
	}
}
