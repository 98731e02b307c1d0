package upstream

import (
	"net/netip"
	"time"
)

// Drained are the servers that get no new sessions at the operator's command, those of InheritDrains that are yet to be listed too.
func (p *Pool) Drained() (addrs []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		if !s.drainedAt.IsZero() {
			addrs = append(addrs, s.Addr)
		}
	}
	for addr := range p.inherited {
		addrs = append(addrs, addr)
	}
	return addrs
}

// InheritDrains drains servers that were drained in a predecessor's Pool, each as soon as it is listed: discovery may find it later.
func (p *Pool) InheritDrains(now time.Time, drained []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inherited = make(map[netip.AddrPort]time.Time, len(drained))
	for _, addr := range drained {
		p.inherited[addr] = now
	}
	for _, s := range p.servers {
		p.bequeath(s)
	}
}

// bequeath drains a server that is listed from now on if it is one of InheritDrains's.
func (p *Pool) bequeath(s *Server) {
	if at, ok := p.inherited[s.Addr]; ok {
		s.drainedAt = at
		delete(p.inherited, s.Addr)
	}
}
