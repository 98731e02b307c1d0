package stats

import (
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
)

// KernelFigures count the kernel's work for a Server. Counters include the forwarded datagrams, but not the filtered
// ones.
type KernelFigures struct {
	Filtered      []Filtered // by hook and verdict; nil without filters
	ForwardedUp   Traffic    // clients' datagrams that the kernel forwarded (ModeRelay)
	ForwardedDown Traffic    // servers' datagrams that the kernel forwarded (ModeRelay)
	Known         int        // clients that the filters know
	Limited       uint64     // clients' datagrams beyond a limit per session (ModeRelay)
}

// Filtered counts the datagrams with one verdict of the kernel's filters at one hook.
type Filtered struct {
	Hook      string // "socket" or "interface"
	Verdict   string // "passed", or the reason of the drop
	Datagrams uint64
}

// ReadKernel reads the kernel's counters. It leaves out counters that it cannot read. s and flows may be nil.
func ReadKernel(s *shield.Shield, flows *flow.Table) (f KernelFigures) {
	if s != nil {
		if c, err := s.Counters(); err == nil {
			f.filter("socket", &c.Sockets)
			f.filter("interface", &c.Interfaces)
		}
		f.Known = s.Known()
	}
	if flows != nil {
		if all, err := flows.Totals(); err == nil {
			f.ForwardedUp, f.ForwardedDown = trafficOf(&all.FromClient), trafficOf(&all.FromServer)
			f.Limited = all.FromClient.Dropped
		}
	}
	return f
}

func (f *KernelFigures) filter(hook string, t *shield.Tally) {
	for reason, n := range t {
		f.Filtered = append(f.Filtered, Filtered{hook, shield.Reason(reason).String(), n})
	}
}

func trafficOf(c *flow.Count) Traffic { return Traffic{c.Packets, c.Bytes} }

// AddForwarded adds the traffic that the kernel forwarded to the traffic of user space.
func (c *Counters) AddForwarded(f *KernelFigures) {
	c.Clients.In.Join(f.ForwardedUp)
	c.Clients.Fates[FateTaken] += f.ForwardedUp.Messages
	c.RelayedUp.Join(f.ForwardedUp)
	c.Upstreams.In.Join(f.ForwardedDown)
	c.Upstreams.Fates[FateTaken] += f.ForwardedDown.Messages
	c.RelayedDown.Join(f.ForwardedDown)
}
