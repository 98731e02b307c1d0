package netio

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// imported are the sockets of an Import, until CloseUnclaimed.
type imported struct {
	sockets   []watched // by their number in the other process
	listeners map[netip.AddrPort]*epollListener
}

// importer makes the sockets of an Export again.
type importer struct {
	*epollPoller
	descriptors []int // that no part has taken yet
	by          map[int]int
}

func (p *epollPoller) Import(state []byte, descriptors []int) error {
	p.imported.listeners = make(map[netip.AddrPort]*epollListener)
	for _, w := range p.sockets {
		if l, ok := w.(*epollListener); ok {
			p.imported.listeners[l.addr] = l
		}
	}
	return p.Take(state, descriptors)
}

func (p *epollPoller) Take(state []byte, descriptors []int) error {
	p.guest = true
	m := importer{p, descriptors, make(map[int]int, len(descriptors))}
	err := m.parts(state)
	CloseCopies(m.descriptors)
	CloseCopies(slices.Collect(maps.Values(m.by))) // no socket has them
	if err != nil {
		return fmt.Errorf("import sockets: %w", err)
	}
	return nil
}

func (m *importer) parts(state []byte) error {
	for len(state) > 0 {
		part, rest, err := readPart(state)
		if err != nil {
			return err
		}
		state = rest
		if len(part.Numbers) > len(m.descriptors) {
			return errState
		}
		for i, number := range part.Numbers {
			m.by[number] = m.descriptors[i]
		}
		m.descriptors = m.descriptors[len(part.Numbers):]
		if err := m.part(part); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) part(part *savedPart) error {
	for i := range part.Dialed {
		if err := m.dialed(&part.Dialed[i]); err != nil {
			return err
		}
	}
	for i := range part.Shared {
		if err := m.sharedSocket(&part.Shared[i]); err != nil {
			return err
		}
	}
	for i := range part.Members {
		saved := &part.Members[i]
		h := sharedOf(m.imported.at(saved.Number))
		if h == nil || !saved.Peer.IsValid() || saved.At.IsValid() != h.ownAddresses {
			return errState
		}
		h.add(saved.At, saved.Peer)
	}
	for i := range part.Streams {
		if err := m.stream(&part.Streams[i]); err != nil {
			return err
		}
	}
	for _, d := range part.Drops {
		if s, ok := m.imported.at(d.Number).(*epollSocket); ok {
			s.queued, s.drops = true, d.Drops
		}
	}
	return nil
}

// at returns the imported owner of a descriptor, or nil.
func (m *imported) at(number int) watched {
	if number < 0 || number >= len(m.sockets) {
		return nil
	}
	return m.sockets[number]
}

// take returns the descriptor with a number. From then on, the caller owns it.
func (m *importer) take(number int) (fd int, err error) {
	fd, ok := m.by[number]
	if !ok || number < 0 || number > 1<<30 {
		return -1, errState
	}
	delete(m.by, number)
	return fd, nil
}

// adopt watches a socket. It replaces one that was given before: the other process has closed that one since.
func (m *importer) adopt(w watched, number, fd int, events uint32) error {
	if old := m.imported.at(number); old != nil && !m.dismiss(old) {
		return closeAfter(fd, errState)
	}
	if err := m.watch(w, fd, events); err != nil {
		return closeAfter(fd, err)
	}
	if missing := number + 1 - len(m.imported.sockets); missing > 0 {
		m.imported.sockets = append(m.imported.sockets, make([]watched, missing)...)
	}
	m.imported.sockets[number] = w
	return nil
}

// dismiss closes a given socket, and reports whether that kind of socket can be given.
func (m *importer) dismiss(w watched) bool {
	s, ok := w.(*epollSocket)
	h := sharedOf(w)
	switch {
	case !ok || h != nil && h.ownAddresses:
		return false
	case h == nil:
		s.Close()
		return true
	}
	m.shared.closeEmpty(h)
	for _, l := range h.members {
		l.Close() // the last one closes the shared socket
	}
	return true
}

func (m *importer) dialed(g *savedDialed) error {
	all := make([]epollSocket, len(g.Numbers)) // together, for they are many
	for i, number := range g.Numbers {
		fd, err := m.take(number)
		if err != nil {
			return err
		}
		s := &all[i]
		*s = epollSocket{
			poller: m.epollPoller, fd: fd, reusable: g.Reusable, dontFragment: g.DontFragment, buffer: g.Buffer,
		}
		if s.peer, s.family, err = connectedTo(fd); err != nil {
			return closeAfter(fd, err)
		}
		if err := m.adopt(s, number, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// connectedTo returns the peer of a UDP socket, and the socket's family. It is a raw system call, as in boundTo.
func connectedTo(fd int) (peer netip.AddrPort, family int, err error) {
	var sa sockaddr
	size := uint32(unix.SizeofSockaddrInet6)
	_, _, errno := unix.RawSyscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)),
		uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return peer, 0, callError("getpeername", errno)
	}
	return addrPort(&sa), int(sa.Family), nil
}

func (m *importer) sharedSocket(saved *savedShared) error {
	fd, err := m.take(saved.Number)
	if err != nil {
		return err
	}
	kind := sharedKind{unix.AF_INET, saved.DontFragment, saved.Local, saved.Buffer}
	if saved.IPv6 {
		kind.family = unix.AF_INET6
	}
	s := &epollSocket{poller: m.epollPoller, fd: fd, family: kind.family}
	if s.addr, err = boundTo(fd); err != nil {
		return closeAfter(fd, err)
	}
	h := &sharedSocket{epollSocket: s, kind: kind, members: make(map[virtualKey]*virtualSocket)}
	s.demux = h
	if saved.OwnAddresses {
		m.shared.keepOwn(kind, h)
	} else {
		pl := m.shared.pool(kind)
		pl.sockets = append(pl.sockets, nil)
		pl.keep(len(pl.sockets)-1, h)
	}
	return m.adopt(s, saved.Number, fd, unix.EPOLLIN)
}

func (m *importer) stream(saved *savedStream) error {
	if saved.MaxFrame < 1 || saved.MaxFrame > MaxDatagram || len(saved.Rest) > saved.Prefix.size()+saved.MaxFrame ||
		!saved.Peer.IsValid() {
		return errState
	}
	fd, err := m.take(saved.Number)
	if err != nil {
		return err
	}
	s := &epollStream{
		endpoint: endpoint{addr: saved.Addr, peer: saved.Peer, closed: saved.Lingers}, poller: m.epollPoller, fd: fd,
		framing: framing{saved.Prefix, saved.MaxFrame}, limit: saved.Limit, rest: saved.Rest, backlog: saved.Backlog,
		connecting: saved.Connecting, wrote: saved.Wrote, events: unix.EPOLLIN,
	}
	if s.connecting || len(s.backlog) > 0 {
		s.events |= unix.EPOLLOUT
	}
	if err := m.adopt(s, saved.Number, fd, s.events); err != nil {
		return err
	}
	if l := m.imported.listeners[saved.Listener]; l != nil {
		s.listener, s.owner = l, l.owner
		l.open++
		if saved.Silent {
			s.timer.due = func() { s.fail(ErrSilent) }
			l.hellos.set(&s.timer)
		}
	}
	switch {
	case saved.Lingers:
		s.timer.due = s.shut
		m.lingers.set(&s.timer)
	case saved.Ended:
		s.fail(ErrEnded)
	}
	return nil
}

func (p *epollPoller) Named(b []byte) (s Socket, rest []byte) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] == ended {
		return p.endedStream(b[1:])
	}
	number, n := binary.Uvarint(b[1:])
	if n <= 0 || number >= uint64(len(p.imported.sockets)) {
		return nil, nil
	}
	w, rest := p.imported.sockets[number], b[1+n:]
	switch b[0] {
	case numbered:
		s, _ = w.(Socket)
		return s, rest
	case virtual:
		var k virtualKey
		if len(rest) < len(k.at)+len(k.peer)+len(k.port) {
			return nil, nil
		}
		rest = rest[copy(k.at[:], rest):]
		rest = rest[copy(k.peer[:], rest):]
		rest = rest[copy(k.port[:], rest):]
		if h := sharedOf(w); h != nil {
			if l := h.memberOf(k); l != nil {
				return l, rest
			}
		}
		return nil, rest
	}
	return nil, nil
}

// endedStream returns a stream that has ended, with the addresses at the beginning of b. Its session may still say
// goodbye to the other side.
func (p *epollPoller) endedStream(b []byte) (s Socket, rest []byte) {
	e := &epollStream{poller: p, fd: -1, endpoint: endpoint{closed: true}}
	for _, to := range []*netip.AddrPort{&e.addr, &e.peer} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) || to.UnmarshalBinary(b[n:n+int(size)]) != nil {
			return nil, nil
		}
		b = b[n+int(size):]
	}
	return e, b
}

// memberOf returns the member with a key, which it adds if there is none. It returns nil for a key of no member.
func (h *sharedSocket) memberOf(k virtualKey) *virtualSocket {
	if l := h.members[k]; l != nil {
		return l
	}
	at := netip.Addr{}
	if k.at != [16]byte{} {
		at = netip.AddrFrom16(k.at).Unmap()
	}
	peer := netip.AddrPortFrom(netip.AddrFrom16(k.peer).Unmap(), binary.BigEndian.Uint16(k.port[:]))
	if at.IsValid() != h.ownAddresses {
		return nil
	}
	return h.add(at, peer)
}

func (p *epollPoller) CloseUnclaimed() {
	for _, w := range p.imported.sockets {
		if h := sharedOf(w); h != nil {
			p.shared.closeEmpty(h)
			for _, l := range h.members {
				if l.owner == nil {
					l.Close()
				}
			}
			continue
		}
		if s, ok := w.(Socket); ok && s.Owner() == nil {
			s.Close()
		}
	}
	p.imported = imported{}
}
