package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/daemon"
	"tidegate/internal/discovery"
	"tidegate/internal/doctor"
	"tidegate/internal/kernel/shield"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

func doctorCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "doctor",
		Usage: "find the faults of this machine for a configuration, with remedies",
		Description: "Problems are faults that players notice. Advice is about features that Tidegate works without.\n" +
			"The exit code is 1 if there is a problem. Run it as the user that runs Tidegate: rights differ.\n\n" +
			examples("tidegate doctor", "tidegate doctor --json -c tidegate.toml"),
		Flags: []cli.Flag{configFlag, jsonFlag, &cli.DurationFlag{
			Name: "timeout", Aliases: []string{"t"}, Value: 3 * time.Second, Usage: "wait `DURATION` for servers and names",
		}},
		Action: examine,
	})
}

func examine(c *cli.Context) error {
	_, settled, err := load(c)
	if err != nil {
		return err
	}
	wait := c.Duration("timeout")
	m := doctor.ThisMachine(settled)
	m.Kernel = func() (filter, forward error) {
		k := daemon.NewKernel(settled, 1)
		_ = daemon.CloseKernel(&k) // nothing was attached
		return k.NoShield, k.NoFlows
	}
	m.Running = func(ctx context.Context) (string, error) { return liveConfig(ctx, settled, wait) }
	m.Ask = func(ctx context.Context) (all []doctor.Answer) {
		for _, p := range probeServers(ctx, settled, wait) {
			a := doctor.Answer{Upstream: p.Upstream, Server: p.Server, Asked: p.Asked}
			if p.Asked && (!p.Answered || p.Refuses) {
				a.Fault = p.Text
			}
			all = append(all, a)
		}
		return all
	}
	m.Cluster = func(ctx context.Context, u *config.Upstream) error { return askClusters(ctx, settled, u, wait) }
	ctx, cancel := context.WithTimeout(c.Context, 4*wait+10*time.Second)
	defer cancel()
	results := doctor.Examine(ctx, settled, m)
	problems := 0
	for _, r := range results {
		for _, f := range r.Findings {
			if f.Severity == doctor.Problem {
				problems++
			}
		}
	}
	if c.Bool("json") {
		err = printJSON(c, map[string]any{"checks": results, "problems": problems})
	} else {
		printResults(c, results)
	}
	if err == nil && problems > 0 {
		err = cli.Exit("", 1)
	}
	return err
}

// printResults prints a line for each check, and below it the findings with their remedies.
func printResults(c *cli.Context, results []doctor.Result) {
	for _, r := range results {
		word := "ok"
		for _, f := range r.Findings {
			if word != string(doctor.Problem) {
				word = string(f.Severity)
			}
		}
		fmt.Fprintf(c.App.Writer, "%-8s %-12s %s\n", word, r.Check, printable(r.Detail))
		for _, f := range r.Findings {
			fmt.Fprintf(c.App.Writer, "         - %s\n           remedy: %s\n", printable(f.Text), printable(f.Remedy))
		}
	}
}

// liveConfig returns the configuration of the proxy at the admin address, or "" if no proxy listens there.
func liveConfig(ctx context.Context, settled *config.Config, wait time.Duration) (string, error) {
	if settled.Admin.Listen == config.AdminOff {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var running admin.Configuration
	client := admin.NewClient(admin.Address(settled.Admin.Listen), string(settled.Admin.Token))
	err := client.Get(ctx, "/api/v1/config", &running)
	if isAbsent(err) {
		return "", nil
	}
	return running.TOML, err
}

// askClusters asks the API servers of Kubernetes for an upstream's servers.
func askClusters(ctx context.Context, c *config.Config, u *config.Upstream, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, source := range daemon.Clusters(c, u) {
		if _, err := discovery.Ask(ctx, source); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}

// explainKernel describes, for each listener, which datagrams the kernel would handle on this machine, and why not
// more. It asks the kernel about everything but the interfaces, which only a proxy uses.
func explainKernel(c *config.Config, s *relay.Settings) string {
	k := daemon.NewKernel(c, 1)
	defer func() { _ = daemon.CloseKernel(&k) }() // nothing was attached
	var text strings.Builder
	for i := range s.Listeners {
		l := &s.Listeners[i]
		if i > 0 && s.Listeners[i-1].Name == l.Name {
			continue // another port of the same listener
		}
		fmt.Fprintf(&text, "%s (%s)\n", l.Name, place(l, lastPort(s.Listeners[i:])))
		fmt.Fprintf(&text, "  dropped in %s\n", explainDrops(c, &k, l))
		fmt.Fprintf(&text, "  forwarded in %s\n", explainForwarding(c, &k, s, l))
	}
	for _, name := range k.Interfaces {
		fmt.Fprintf(&text, "%s: XDP drops datagrams for these listeners, if the interface exists\n", name)
	}
	return text.String()
}

func explainDrops(c *config.Config, k *proxy.Kernel, l *relay.Listener) string {
	var firsts string
	if n := possible(l.FirstBytes()); n < 256 {
		firsts = fmt.Sprintf("first bytes, of which %d of 256 are possible", n)
	}
	switch why := l.Shieldable(); {
	case why != nil:
		return fmt.Sprintf("user space: %v", why)
	case k.Shield == nil && k.Plain:
		if firsts != "" {
			firsts += "; "
		}
		return fmt.Sprintf("the kernel: %sstrangers, by chance, while a loop is behind; the rest in user space: %v", firsts,
			k.NoShield)
	case k.Shield == nil:
		return fmt.Sprintf("user space: %v", k.NoShield)
	}
	drops := "the kernel: banned networks"
	if firsts != "" {
		drops += "; " + firsts
	}
	if rate := c.Kernel.PacketRate; rate > 0 {
		drops += fmt.Sprintf("; sources beyond %d datagrams a second", rate)
	}
	return drops + "; strangers beyond what a loop can read"
}

// possible returns the number of first bytes in a set.
func possible(f shield.FirstBytes) (n int) {
	for b := range 256 {
		if f.Has(byte(b)) {
			n++
		}
	}
	return n
}

func explainForwarding(c *config.Config, k *proxy.Kernel, s *relay.Settings, l *relay.Listener) string {
	switch why := s.Forwardable(l); {
	case why == nil && c.Record.Last > 0:
		return "user space: [record] needs every datagram"
	case why != nil:
		return fmt.Sprintf("user space: %v", why)
	case k.Flows == nil:
		return fmt.Sprintf("user space: %v", k.NoFlows)
	}
	return "the kernel, once a session is established"
}
