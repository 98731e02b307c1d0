package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/cidr"
	"tidegate/internal/each"
)

// choosingFlags are the flags that choose sessions.
func choosingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listener", Usage: "only sessions of the listener `NAME`"},
		&cli.StringFlag{Name: "route", Usage: "only sessions of the route `NAME`"},
		&cli.StringFlag{Name: "client", Usage: "only clients of `ADDRESS`, or of a network such as 203.0.113.0/24"},
		&cli.StringFlag{Name: "server", Usage: "only sessions at the game server `IP:PORT`"},
		&cli.StringFlag{Name: "protocol", Aliases: []string{"p"}, Usage: "only clients of the protocol `NAME`"},
		&cli.StringFlag{Name: "state", Usage: "only sessions in a `STATE`: half-open, established, held or ending"},
	}
}

// choice is a choice of sessions.
type choice struct {
	listener, route, protocol, state string // empty: any
	clients                          netip.Prefix
	server                           netip.AddrPort
}

// choose returns the choice of the flags.
func choose(c *cli.Context) (of choice, err error) {
	of = choice{
		listener: c.String("listener"), route: c.String("route"), protocol: c.String("protocol"), state: c.String("state"),
	}
	if text := c.String("client"); text != "" {
		if of.clients, err = cidr.Parse(text); err != nil {
			return of, misuse(fmt.Errorf("--client %w", err))
		}
	}
	if states := []string{"half-open", "established", "held", "ending"}; of.state != "" &&
		!slices.Contains(states, of.state) {
		return of, misuse(fmt.Errorf("--state %q: want one of %s", of.state, strings.Join(states, ", ")))
	}
	return of, addressFlag(c, "server", &of.server)
}

// has reports whether a session is chosen, apart from listener and route, which the proxy looks at.
func (of *choice) has(s *admin.Session) bool {
	if of.clients.IsValid() {
		client, err := netip.ParseAddrPort(s.Client.Address)
		if err != nil || !of.clients.Contains(client.Addr().Unmap()) {
			return false
		}
	}
	return (of.protocol == "" || of.protocol == s.Client.Protocol) && (of.state == "" || of.state == s.State) &&
		(!of.server.IsValid() || of.server.String() == s.Server.Address)
}

// sessionsPage is the number of sessions in one request.
const sessionsPage = 1000

// each calls do with the chosen sessions, a page at a time, up to a limit. Limit 0 means all.
func (of *choice) each(ctx context.Context, client *admin.Client, limit int, do func([]admin.Session) error) error {
	ask := url.Values{"listener": {of.listener}, "route": {of.route}, "limit": {strconv.Itoa(sessionsPage)}}
	for count, more := 0, true; more; {
		var page admin.Sessions
		if err := client.Get(ctx, "/api/v1/sessions?"+ask.Encode(), &page); err != nil {
			return err
		}
		chosen := slices.DeleteFunc(page.Sessions, func(s admin.Session) bool { return !of.has(&s) })
		if limit > 0 {
			chosen = chosen[:min(limit-count, len(chosen))]
		}
		if err := do(chosen); err != nil {
			return err
		}
		count += len(chosen)
		ask.Set("after", page.Next)
		more = page.Next != "" && (limit == 0 || count < limit)
	}
	return nil
}

// chosenSessions returns the sessions that the flags choose. Without any, an unknown listener or route is an error.
func chosenSessions(c *cli.Context, client *admin.Client, limit int) (all []admin.Session, err error) {
	of, err := choose(c)
	if err != nil {
		return nil, err
	}
	err = of.each(c.Context, client, limit, func(page []admin.Session) error {
		all = append(all, page...)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = of.exists(c.Context, client)
	}
	return all, err
}

// exists returns an error if the proxy's configuration has no listener or route of the choice.
func (of *choice) exists(ctx context.Context, client *admin.Client) error {
	if of.listener == "" && of.route == "" {
		return nil
	}
	names, err := runningNames(ctx, client)
	if err != nil {
		return err
	}
	missing := func(kind, name string, known []string) error {
		plain, _, _ := strings.Cut(name, ":") // of a range of ports
		if name == "" || slices.Contains(known, plain) {
			return nil
		}
		return fmt.Errorf("the proxy has no %s %q, but %s", kind, name, strings.Join(known, ", "))
	}
	return errors.Join(missing("listener", of.listener, names.Listeners), missing("route", of.route, names.Routes))
}

// runningConfig has the names in the configuration of a running proxy.
type runningConfig struct{ Listeners, Routes, Upstreams []string }

// runningNames returns the names in the running proxy's configuration.
func runningNames(ctx context.Context, client *admin.Client) (names runningConfig, err error) {
	var running admin.Configuration
	if err := client.Get(ctx, "/api/v1/config", &running); err != nil {
		return names, err
	}
	type table struct {
		Name string `toml:"name"`
	}
	var file struct {
		Listener, Route, Upstream []table
	}
	if err := toml.Unmarshal([]byte(running.TOML), &file); err != nil {
		return names, fmt.Errorf("read the proxy's configuration: %w", err)
	}
	of := func(tables []table) []string { return each.Of(tables, func(t table) string { return t.Name }) }
	return runningConfig{of(file.Listener), of(file.Route), of(file.Upstream)}, nil
}
