package netio

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// hubs are the descriptors that dialed Sockets of a Poller share.
type hubs struct {
	own    map[hubKind]*hub // whose lanes have addresses of their own: one serves them all
	pooled map[hubKind]*pool
}

// hubKind is what lanes of one descriptor have in common.
type hubKind struct {
	family       int
	dontFragment bool
	local        netip.Addr // the zero Addr: the system's choice
	buffer       int        // SocketOptions.ReceiveBuffer
}

func kindOf(to netip.AddrPort, o SocketOptions) hubKind {
	return hubKind{familyOf(to), o.DontFragment, o.Local, o.ReceiveBuffer}
}

// dialFrom opens a lane with an address of its own.
func (p *epollPoller) dialFrom(to netip.AddrPort, o SocketOptions) (Socket, error) {
	if !to.IsValid() || o.Sources.Addr().Is4() != to.Addr().Unmap().Is4() {
		return nil, ErrAddress
	}
	o.Local = netip.Addr{}
	kind := kindOf(to, o)
	h := p.hubs.own[kind]
	if h == nil {
		var err error
		if h, err = p.openHub(kind, o); err != nil {
			return nil, err
		}
		h.own, h.left = true, func(*lane) {}
		if p.hubs.own == nil {
			p.hubs.own = make(map[hubKind]*hub)
		}
		p.hubs.own[kind] = h
	}
	to = unmap(to)
	at, ok := h.freeSource(to, o)
	if !ok {
		return nil, ErrNoSource
	}
	return h.join(at, to), nil
}

// freeSource finds the first address from the one that SourceKey asks for that no lane to the peer has.
func (h *hub) freeSource(to netip.AddrPort, o SocketOptions) (at, bool) {
	n := usable(o.Sources)
	for i := range n {
		at := nthSource(o.Sources, (o.SourceKey%n+i)%n)
		if _, taken := h.lanes[keyOf(at, to)]; !taken {
			return at, true
		}
	}
	return at{}, false
}

// openHub opens a descriptor to share. Its errors are told by lane, if the kernel can.
func (p *epollPoller) openHub(kind hubKind, o SocketOptions) (*hub, error) {
	local := o.Local
	switch {
	case local.IsValid():
	case kind.family == unix.AF_INET6:
		local = netip.IPv6Unspecified()
	default:
		local = netip.IPv4Unspecified()
	}
	o.Local = netip.Addr{} // open binds to an address that it is given, and this one only
	s, err := p.open(netip.AddrPortFrom(local, 0), o.forSharing(), bind)
	if err != nil {
		return nil, err
	}
	options := []struct{ level, name int }{{unix.SOL_IP, unix.IP_PKTINFO}, {unix.SOL_IP, unix.IP_RECVERR}}
	if kind.family == unix.AF_INET6 {
		options = []struct{ level, name int }{
			{unix.SOL_IPV6, unix.IPV6_RECVPKTINFO}, {unix.SOL_IPV6, unix.IPV6_RECVERR},
			// A source must else be an address of an interface; to be of a local prefix does not do.
			{unix.SOL_IPV6, unix.IPV6_FREEBIND},
		}
	}
	for _, option := range options {
		if err := setOption(s.fd, option.level, option.name, 1); err != nil {
			s.Close()
			return nil, err
		}
	}
	h := &hub{epollSocket: s, lanes: make(map[laneKey]*lane)}
	s.split = h
	return h, nil
}

// pool is the hubs of a kind whose lanes have no addresses of their own, so that each hub has one lane to a peer at most.
type pool struct {
	hubs []*hub                 // nil where one was closed
	full map[netip.AddrPort]int // so many hubs at the front surely have a lane to the peer
}

// dialPooled opens a lane at the first hub that has none to the peer.
func (p *epollPoller) dialPooled(to netip.AddrPort, o SocketOptions) (Socket, error) {
	if !to.IsValid() {
		return nil, ErrAddress
	}
	to = unmap(to)
	kind := kindOf(to, o)
	pl := p.hubs.pooled[kind]
	if pl == nil {
		pl = &pool{full: make(map[netip.AddrPort]int)}
		if p.hubs.pooled == nil {
			p.hubs.pooled = make(map[hubKind]*pool)
		}
		p.hubs.pooled[kind] = pl
	}
	i := pl.full[to]
	for i < len(pl.hubs) && pl.hubs[i] != nil && pl.hubs[i].lanes[keyOf(at{}, to)] != nil {
		i++
	}
	if i == len(pl.hubs) {
		pl.hubs = append(pl.hubs, nil)
	}
	if pl.hubs[i] == nil {
		h, err := p.openHub(kind, o)
		if err != nil {
			return nil, err
		}
		h.left = func(l *lane) { pl.left(i, l) }
		pl.hubs[i] = h
	}
	pl.full[to] = i + 1
	return pl.hubs[i].join(at{}, to), nil
}

// left notes that a lane of the i-th hub has closed. A hub without lanes is closed too.
func (pl *pool) left(i int, l *lane) {
	if n, ok := pl.full[l.peer]; ok && i < n {
		pl.full[l.peer] = i
		if i == 0 {
			delete(pl.full, l.peer)
		}
	}
	if h := pl.hubs[i]; len(h.lanes) == 0 {
		h.Close()
		pl.hubs[i] = nil
	}
}
