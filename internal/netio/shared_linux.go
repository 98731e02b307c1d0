package netio

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedSockets are the descriptors that dialed Sockets of a Poller share.
type sharedSockets struct {
	own    map[sharedKind]*sharedSocket // members have their own addresses, so one descriptor serves all of a kind
	pooled map[sharedKind]*socketPool
}

// sharedKind has the properties that all members of a shared descriptor have in common.
type sharedKind struct {
	family       int
	dontFragment bool
	local        netip.Addr // the zero Addr: the system's choice
	buffer       int        // SocketOptions.ReceiveBuffer
}

func kindOf(to netip.AddrPort, o SocketOptions) sharedKind {
	return sharedKind{familyOf(to), o.DontFragment, o.Local, o.ReceiveBuffer}
}

// dialFromPrefix opens a virtual socket with its own address.
func (p *epollPoller) dialFromPrefix(to netip.AddrPort, o SocketOptions) (Socket, error) {
	if !to.IsValid() || o.Sources.Addr().Is4() != to.Addr().Unmap().Is4() {
		return nil, ErrAddress
	}
	o.Local = netip.Addr{}
	kind := kindOf(to, o)
	h := p.shared.own[kind]
	if h == nil {
		var err error
		if h, err = p.openShared(kind, o); err != nil {
			return nil, err
		}
		p.shared.keepOwn(kind, h)
	}
	to = unmap(to)
	at, ok := h.freeSource(to, o)
	if !ok {
		return nil, ErrNoSource
	}
	return h.add(at, to), nil
}

// keepOwn keeps a shared socket whose members have their own addresses.
func (all *sharedSockets) keepOwn(kind sharedKind, h *sharedSocket) {
	h.ownAddresses, h.onClose = true, func(*virtualSocket) {}
	if all.own == nil {
		all.own = make(map[sharedKind]*sharedSocket)
	}
	all.own[kind] = h
}

// freeSource returns the first address, from the one for SourceKey, that no virtual socket to the peer has.
func (h *sharedSocket) freeSource(to netip.AddrPort, o SocketOptions) (netip.Addr, bool) {
	n := usableSources(o.Sources)
	for i := range n {
		at := nthSource(o.Sources, (o.SourceKey%n+i)%n)
		if _, taken := h.members[keyOf(at, to)]; !taken {
			return at, true
		}
	}
	return netip.Addr{}, false
}

// openShared opens a descriptor to share. If the kernel supports it, errors are reported per virtual socket.
func (p *epollPoller) openShared(kind sharedKind, o SocketOptions) (*sharedSocket, error) {
	local := o.Local
	switch {
	case local.IsValid():
	case kind.family == unix.AF_INET6:
		local = netip.IPv6Unspecified()
	default:
		local = netip.IPv4Unspecified()
	}
	o.Local = netip.Addr{} // open binds to its address argument
	s, err := p.open(netip.AddrPortFrom(local, 0), o.forSharing(), bind)
	if err != nil {
		return nil, err
	}
	options := []struct{ level, name int }{{unix.SOL_IP, unix.IP_PKTINFO}, {unix.SOL_IP, unix.IP_RECVERR}}
	if kind.family == unix.AF_INET6 {
		options = []struct{ level, name int }{
			{unix.SOL_IPV6, unix.IPV6_RECVPKTINFO}, {unix.SOL_IPV6, unix.IPV6_RECVERR},
			// Otherwise a source must be an address of an interface. An address in a local prefix is not enough.
			{unix.SOL_IPV6, unix.IPV6_FREEBIND},
		}
	}
	for _, option := range options {
		if err := setOption(s.fd, option.level, option.name, 1); err != nil {
			s.Close()
			return nil, err
		}
	}
	h := &sharedSocket{epollSocket: s, kind: kind, members: make(map[virtualKey]*virtualSocket)}
	s.demux = h
	return h, nil
}

// socketPool holds shared sockets whose members have no addresses of their own. So each one has at most one member
// per peer.
type socketPool struct {
	sockets []*sharedSocket        // nil where one was closed
	full    map[netip.AddrPort]int // number of sockets at the front that certainly have a member for the peer
}

// dialShared opens a virtual socket at the first shared socket without a member for the peer.
func (p *epollPoller) dialShared(to netip.AddrPort, o SocketOptions) (Socket, error) {
	if !to.IsValid() {
		return nil, ErrAddress
	}
	to = unmap(to)
	kind := kindOf(to, o)
	pl := p.shared.pool(kind)
	i := pl.full[to]
	for i < len(pl.sockets) && pl.sockets[i] != nil && pl.sockets[i].members[keyOf(netip.Addr{}, to)] != nil {
		i++
	}
	if i == len(pl.sockets) {
		pl.sockets = append(pl.sockets, nil)
	}
	if pl.sockets[i] == nil {
		h, err := p.openShared(kind, o)
		if err != nil {
			return nil, err
		}
		pl.keep(i, h)
	}
	pl.full[to] = i + 1
	return pl.sockets[i].add(netip.Addr{}, to), nil
}

// pool returns the pool of a kind.
func (all *sharedSockets) pool(kind sharedKind) *socketPool {
	pl := all.pooled[kind]
	if pl == nil {
		pl = &socketPool{full: make(map[netip.AddrPort]int)}
		if all.pooled == nil {
			all.pooled = make(map[sharedKind]*socketPool)
		}
		all.pooled[kind] = pl
	}
	return pl
}

// closeEmpty closes a shared socket of a pool that never had a member.
func (all *sharedSockets) closeEmpty(h *sharedSocket) {
	pl := all.pool(h.kind)
	if i := slices.Index(pl.sockets, h); i >= 0 && len(h.members) == 0 {
		pl.sockets[i] = nil
		h.Close()
	}
}

// keep makes a shared socket the i-th of the pool.
func (pl *socketPool) keep(i int, h *sharedSocket) {
	h.onClose = func(l *virtualSocket) { pl.left(i, l) }
	pl.sockets[i] = h
}

// left notes that a member of the i-th shared socket has closed. A shared socket without members is closed.
func (pl *socketPool) left(i int, l *virtualSocket) {
	if n, ok := pl.full[l.peer]; ok && i < n {
		pl.full[l.peer] = i
		if i == 0 {
			delete(pl.full, l.peer)
		}
	}
	if h := pl.sockets[i]; len(h.members) == 0 {
		h.Close()
		pl.sockets[i] = nil
	}
}

// errorBatch is the number of error reports that a sharedSocket reads at a time.
const errorBatch = 64

// readErrorQueue reports network errors to the virtual sockets that caused them, and returns the number of reports.
func (h *sharedSocket) readErrorQueue() (reports int) {
	p := h.poller
	var control [2 * controlRoom]byte
	for ; reports < errorBatch; reports++ {
		_, n, _, to, err := unix.Recvmsg(h.fd, nil, control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return reports
		}
		errno, at := readError(control[:n])
		f := classifyErrno(errno)
		p.stats.countReceive(f)
		if !h.ownAddresses {
			at = netip.Addr{}
		}
		if l := h.members[keyOf(at, ofSockaddr(to))]; l != nil {
			p.failures.add(l, &l.endpoint, f)
		}
	}
	return reports
}

// readError reads a report: the error, and the source address of the datagram that caused it.
func readError(b []byte) (errno syscall.Errno, at netip.Addr) {
	var n metadata
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		end := int(h.Len)
		if end < unix.SizeofCmsghdr || end > len(b) {
			break
		}
		data := b[unix.SizeofCmsghdr:end]
		isError := h.Level == unix.SOL_IP && h.Type == unix.IP_RECVERR ||
			h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_RECVERR
		switch {
		case isError && len(data) >= 4:
			errno = syscall.Errno(binary.NativeEndian.Uint32(data))
		case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO && len(data) >= 12:
			n.at = netip.AddrFrom4([4]byte(data[8:12])) // the destination of the report
		default:
			n.readOne(h.Level, h.Type, data)
		}
		b = b[min(unix.CmsgSpace(end-unix.SizeofCmsghdr), len(b)):]
	}
	return errno, n.at
}
