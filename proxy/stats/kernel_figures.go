package stats

import (
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
)

// KernelFigures are what the kernel has done for a Server. What it forwarded is in the Counters too, and what its
// filters dropped is in none.
type KernelFigures struct {
	Filtered      []Filtered // of each hook and verdict; nil without filters
	ForwardedUp   Traffic    // datagrams of clients in ModeRelay that went on without a visit to user space
	ForwardedDown Traffic    // of servers
	Known         int        // clients whom the filters tell from strangers
	Limited       uint64     // datagrams of clients in ModeRelay beyond a limit per session
}

// Filtered counts what filters of the kernel's have judged one way.
type Filtered struct {
	Hook      string // "socket" or "interface"
	Verdict   string // "passed", or why not
	Datagrams uint64
}

// ReadKernel asks the kernel. What it does not answer is left out. Either part may be nil.
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

// AddForwarded adds what the kernel has forwarded to what came and went here.
func (c *Counters) AddForwarded(f *KernelFigures) {
	c.Clients.In.Join(f.ForwardedUp)
	c.RelayedUp.Join(f.ForwardedUp)
	c.Upstreams.In.Join(f.ForwardedDown)
	c.RelayedDown.Join(f.ForwardedDown)
}
