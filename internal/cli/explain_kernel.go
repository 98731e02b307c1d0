package cli

import (
	"fmt"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/daemon"
	"tidegate/internal/kernel/shield"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

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
