package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/codec"
	"tidegate/internal/banfile"
	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/setup"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
)

func checkCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "check",
		Usage:     "report the faults of a configuration, or how its messages will cross",
		ArgsUsage: "[FILE]",
		Description: "FILE is the same as -c FILE; - is standard input.\n\n" +
			examples("tidegate check", "tidegate check tidegate.toml --json", "tidegate check --probe"),
		Flags: []cli.Flag{
			configFlag, jsonFlag,
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only faults and warnings"},
			&cli.BoolFlag{
				Name: "probe", Usage: "also ask each server in its own protocol whether it is there; exit with 1 if one is silent",
			},
			&cli.BoolFlag{
				Name:  "explain",
				Usage: "also report where datagrams are dropped and forwarded, in the kernel or in user space, and why",
			},
		},
		Action: check,
	})
}

// checked is the JSON of check. The error of an invalid configuration goes to standard error, with its faults.
type checked struct {
	Valid    bool        `json:"valid"`
	Warnings []faultJSON `json:"warnings"`
	Machine  []string    `json:"machine"` // shortfalls of this machine
	Servers  []*probed   `json:"servers,omitempty"`
	Text     string      `json:"text"` // how messages cross
}

func check(c *cli.Context) error {
	settled, warnings, err := loadForCheck(c)
	if err != nil {
		return err
	}
	ruled, err := setup.SettingsWithRules(settled, 1, setup.NewSecrets())
	if err != nil {
		return faulty(err)
	}
	if err := new(setup.Modules).Add(ruled, settled, 1); err != nil {
		return faulty(err)
	}
	if file := banfile.File(settled.Path(settled.Bans.File)); file != "" {
		if _, err := file.Read(); err != nil {
			return faulty(fmt.Errorf("read bans: %w", err))
		}
	}
	out := checked{Valid: true, Warnings: faultsJSON(warnings), Machine: shortfalls(settled)}
	if !c.Bool("quiet") {
		out.Text = explain(ruled) + explainJoins(settled) + explainChecks(settled) + explainClusters(settled)
		out.Text += explainRecord(&settled.Record) + explainFleet(&settled.Fleet)
	}
	if c.Bool("explain") {
		out.Text += explainKernel(settled, ruled)
	}
	if c.Bool("probe") {
		out.Servers = probeServers(c.Context, settled, probeTime)
	}
	if c.Bool("json") {
		return errors.Join(printJSON(c, out), silent(out.Servers))
	}
	for _, w := range warnings {
		fmt.Fprintln(c.App.ErrWriter, "warning:", w)
	}
	for _, s := range out.Machine {
		fmt.Fprintln(c.App.ErrWriter, "warning:", s)
	}
	fmt.Fprint(c.App.Writer, out.Text)
	if !c.Bool("quiet") {
		fmt.Fprintln(c.App.Writer, "configuration is valid")
	}
	for _, s := range out.Servers {
		if !c.Bool("quiet") || s.Asked && !s.Answered {
			fmt.Fprintln(c.App.Writer, s)
		}
	}
	return silent(out.Servers)
}

// loadForCheck reads the configuration of the argument, which may be standard input, or that of the flags.
func loadForCheck(c *cli.Context) (*config.Config, []config.Fault, error) {
	path := c.String("config")
	switch {
	case c.NArg() > 1:
		return nil, nil, misuse(fmt.Errorf("unexpected argument %q", c.Args().Get(1)))
	case c.NArg() == 1 && path != "":
		return nil, nil, misuse(errors.New("check: want FILE or -c FILE, not both"))
	case c.NArg() == 1:
		path = c.Args().First()
	}
	if path == "" {
		found, err := configPath(c)
		if err != nil {
			return nil, nil, err
		}
		path = found
	}
	read := func() (*config.Config, []config.Fault, error) { return setup.Load(path) }
	if path == "-" {
		text, err := io.ReadAll(io.LimitReader(c.App.Reader, 2<<20)) // Parse refuses more than half of it
		if err != nil {
			return nil, nil, fmt.Errorf("standard input: %w", err)
		}
		read = func() (*config.Config, []config.Fault, error) { return setup.Parse("standard input", text) }
	}
	settled, warnings, err := read()
	if err != nil {
		return nil, nil, faulty(err)
	}
	return settled, warnings, nil
}

// shortfalls returns what this machine lacks for a configuration. The proxy may run on another machine.
func shortfalls(settled *config.Config) []string {
	all := []string{}
	for _, err := range []error{setup.CheckMachine(settled), setup.CheckFiles(settled)} {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	if directory := settled.Path(settled.Record.Directory); directory != "" {
		if info, err := os.Stat(directory); err != nil || !info.IsDir() {
			all = append(all, fmt.Sprintf("record.directory = %q is no directory: create it", settled.Record.Directory))
		}
	}
	for _, s := range setup.BufferShortfalls(settled, netio.GrantedBuffer) {
		all = append(all, s.String())
	}
	return all
}

// explain describes, for each listener and protocol, how messages cross to the upstream and back.
func explain(s *relay.Settings) string {
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
			if l.Route.Mode == policy.ModeRelay {
				fmt.Fprintf(&text, "  datagrams pass unchanged; only the first one is inspected\n")
				continue
			}
			explainModules(&text, l.Route)
			explainWay(&text, "client to upstream", p, u.Protocol, l.Route)
			explainMap(&text, p, l.Route, policy.FromClient)
			explainWay(&text, "upstream to client", u.Protocol, p, l.Route)
			explainMap(&text, p, l.Route, policy.FromUpstream)
		}
	}
	return text.String()
}

// explainJoins describes where NetherNet clients join, and what they are told.
func explainJoins(c *config.Config) string {
	var text strings.Builder
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if !slices.Contains(l.Protocols, setup.Edge) {
			continue
		}
		scheme := "HTTP"
		if l.TLSCertificate != "" {
			scheme = "HTTPS and HTTP"
		}
		own, _ := netio.OwnAddresses() // without them, only stated ones are judged
		told, doubt := setup.Told(l, own)
		fmt.Fprintf(&text, "%s: NetherNet clients join by %s at TCP %s, and are told %s\n", l.Name, scheme, l.Address, told)
		if doubt != "" {
			text.WriteString(doubt + "\n")
		}
	}
	return text.String()
}

// explainChecks names the upstreams whose servers are not checked, and the key that would change it.
func explainChecks(c *config.Config) string {
	var text strings.Builder
	known := setup.Traits()
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		t := known[u.Protocol]
		if u.Health == config.HealthConnect || u.Health == config.HealthPing || u.Health == config.HealthHTTP ||
			u.Health == config.HealthAuto && t.Pings && u.Transport == config.UDP {
			continue
		}
		fmt.Fprintf(&text, "%s: servers are not checked: only players find a dead one", u.Name)
		if !t.Pings && !t.Closed && !t.Opaque {
			text.WriteString(`; health = "connect" joins the game to check it`)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// explainRecord describes the memory of the black boxes, and the traffic that it holds.
func explainRecord(r *config.Record) string {
	if r.Last == 0 {
		return ""
	}
	held := float64(r.Memory) / (typicalDatagram + recording.Overhead)
	text := fmt.Sprintf("record: %s of memory; holds %s of %.0f datagrams of %d bytes a second\n", r.Memory, r.Last,
		held/time.Duration(r.Last).Seconds(), typicalDatagram)
	if r.Directory != "" {
		text += fmt.Sprintf("record: sessions with an abnormal end are saved to %s, up to %s\n", r.Directory, r.FilesSize())
	}
	return text
}

// typicalDatagram is a size in bytes with which check estimates.
const typicalDatagram = 200

// lastPort returns the last port of the listeners at the front that share a name.
func lastPort(listeners []relay.Listener) uint16 {
	last := 0
	for last+1 < len(listeners) && listeners[last+1].Name == listeners[0].Name {
		last++
	}
	return listeners[last].Addr.Port()
}

// place returns the address of a listener's clients, with its own port and the ports up to last.
func place(l *relay.Listener, last uint16) string {
	text := l.Addr.String()
	if last != l.Addr.Port() {
		text += fmt.Sprintf("-%d", last)
	}
	if l.Transport.Stream {
		return "tcp " + text
	}
	return text
}

// explainModules names a route's modules, in order.
func explainModules(text *strings.Builder, r *relay.Route) {
	for i := range r.Modules {
		rule := "drop"
		if r.Modules[i].Passes {
			rule = "pass"
		}
		fmt.Fprintf(text, "  module %s sees all messages; while it fails, they %s\n", r.Modules[i].Name, rule)
	}
}

func explainWay(text *strings.Builder, title string, near, far codec.Protocol, r *relay.Route) {
	fmt.Fprintf(text, "  %s: %s\n", title, bridge.Framing(near, far, &r.Bridge))
	for _, c := range bridge.Crossings(near, far, &r.Bridge) {
		fmt.Fprintf(text, "    %-20s as %s\n", c.From, c)
	}
}

// explainMap shows a route's map as a table, for messages of one side.
func explainMap(text *strings.Builder, client codec.Protocol, r *relay.Route, from policy.Direction) {
	for i, line := range bridge.Mapped(client, r.Upstream.Protocol, &r.Bridge, from) {
		if i == 0 {
			text.WriteString("    by the map:\n")
		}
		text.WriteString("      " + line + "\n")
	}
}
