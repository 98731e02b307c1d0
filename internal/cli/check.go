package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/codec"
	"tidegate/internal/banfile"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
	"tidegate/proxy"
	"tidegate/proxy/bridge"
)

func checkCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "check",
		Usage:       "report the faults of a configuration, or how its messages will cross",
		Description: examples("tidegate check -c tidegate.toml"),
		Flags: []cli.Flag{configFlag, &cli.BoolFlag{
			Name:  "explain",
			Usage: "also report where datagrams are dropped and forwarded, in the kernel or in user space, and why",
		}},
		Action: func(c *cli.Context) error {
			_, settled, err := load(c)
			if err != nil {
				return err
			}
			ruled, err := setup.SettingsWithRules(settled, 1)
			if err != nil {
				return cli.Exit("tidegate: "+err.Error(), 2)
			}
			if file := banfile.File(settled.Path(settled.Bans.File)); file != "" {
				if _, err := file.Read(); err != nil {
					return cli.Exit(fmt.Sprintf("tidegate: read bans: %v", err), 2)
				}
			}
			if err := setup.CheckMachine(settled); err != nil { // the proxy may run on another machine
				fmt.Fprintln(c.App.ErrWriter, "warning:", err)
			}
			for _, s := range setup.BufferShortfalls(settled, netio.GrantedBuffer) {
				fmt.Fprintln(c.App.ErrWriter, "warning:", s)
			}
			fmt.Fprint(c.App.Writer, explain(ruled))
			if c.Bool("explain") {
				fmt.Fprint(c.App.Writer, explainKernel(settled, ruled))
			}
			fmt.Fprintln(c.App.Writer, "configuration is valid")
			return nil
		},
	})
}

// explain describes, for each listener and protocol, how messages cross to the upstream and back.
func explain(s *proxy.Settings) string {
	var text strings.Builder
	for i := range s.Listeners {
		l := &s.Listeners[i]
		if i > 0 && s.Listeners[i-1].Name == l.Name {
			continue // another port of the same listener
		}
		u := l.Route.Upstream
		for _, p := range l.Protocols {
			fmt.Fprintf(&text, "%s (%s) %s -> %s (%s)\n", l.Name, place(l, lastPort(s.Listeners[i:])), p.Spec().Name, u.Name,
				u.Protocol.Spec().Name)
			if l.Route.Mode == proxy.ModeRelay {
				fmt.Fprintf(&text, "  datagrams pass unchanged; only the first one is inspected\n")
				continue
			}
			explainWay(&text, "client to upstream", p, u.Protocol, l.Route)
			explainWay(&text, "upstream to client", u.Protocol, p, l.Route)
		}
	}
	return text.String()
}

// lastPort returns the last port of the listeners at the front that share a name.
func lastPort(listeners []proxy.Listener) uint16 {
	last := 0
	for last+1 < len(listeners) && listeners[last+1].Name == listeners[0].Name {
		last++
	}
	return listeners[last].Addr.Port()
}

// place returns the address of a listener's clients, with its own port and the ports up to last.
func place(l *proxy.Listener, last uint16) string {
	text := l.Addr.String()
	if last != l.Addr.Port() {
		text += fmt.Sprintf("-%d", last)
	}
	if l.Transport.Stream {
		return "tcp " + text
	}
	return text
}

func explainWay(text *strings.Builder, title string, near, far codec.Protocol, r *proxy.Route) {
	fmt.Fprintf(text, "  %s: %s\n", title, bridge.Framing(near, far, &r.Bridge))
	for _, c := range bridge.Crossings(near, far, &r.Bridge) {
		fmt.Fprintf(text, "    %-20s as %s\n", c.From, c)
	}
}
