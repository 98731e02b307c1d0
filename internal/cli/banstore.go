package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/user"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/banfile"
	"tidegate/internal/config"
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
