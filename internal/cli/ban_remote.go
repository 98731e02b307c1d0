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

// imposeRemotely bans networks in a running proxy.
func imposeRemotely(c *cli.Context, client *admin.Client, networks []netip.Prefix, ban *ratelimit.Ban) error {
	order := admin.Ban{Reason: ban.Reason, Author: ban.Author}
	if !ban.Until.IsZero() {
		order.Seconds = ban.Until.Sub(ban.Since).Seconds()
	}
	for _, network := range networks {
		order.Prefix = network.String()
		var done admin.WhyBan
		if err := client.Post(c.Context, "/api/v1/bans", order, &done); err != nil {
			return orMisuse(err)
		}
	}
	tellUnshared(c, client)
	return nil
}

// pardonRemotely removes bans in a running proxy.
func pardonRemotely(c *cli.Context, client *admin.Client, networks []netip.Prefix) error {
	var missing []error
	for _, network := range networks {
		var done struct{}
		err := client.Post(c.Context, "/api/v1/bans/remove", admin.Unban{Prefix: network.String()}, &done)
		var refused *admin.StatusError
		switch {
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
			missing = append(missing, fmt.Errorf("%s is not banned", network))
		case err != nil:
			return orMisuse(err)
		}
	}
	tellUnshared(c, client)
	return errors.Join(missing...)
}

// listedRemotely is the largest number of bans in an answer.
const listedRemotely = 10_000

// listRemotely returns the bans in force of a running proxy, the youngest first.
func listRemotely(c *cli.Context, client *admin.Client) ([]ratelimit.Ban, error) {
	var page admin.Bans
	if err := client.Get(c.Context, fmt.Sprintf("/api/v1/bans?limit=%d", listedRemotely), &page); err != nil {
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
