package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/cidr"
	"tidegate/ratelimit"
)

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
