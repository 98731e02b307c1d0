package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollSocket is a Socket of an epollPoller.
type epollSocket struct {
	endpoint
	poller    *epollPoller
	fd        int
	family    int
	queue     chain  // datagrams to be sent
	drops     uint32 // the kernel's counter of drops at the last query
	readIn    uint32 // the Poller's turn of the last read
	pollState pollState
	demux     demultiplexer // of a descriptor that several Sockets share; nil otherwise

	queued       bool   // several messages have waited since drops were last counted
	filtered     bool   // a filter stands before it that does not count its drops
	reusable     bool   // dialed without special options, so the next Dial can reuse it
	dontFragment bool   // of a reusable one
	buffer       int    // SocketOptions.ReceiveBuffer of a reusable one
	idle         bool   // for the next Dial: it is closed, but has its descriptor
	idleSince    uint32 // no input can have come since this turn of the Poller
	given        uint8  // the round of Give that has returned it; 0: none
}

// Addr implements Socket. The port of a reused socket is asked for on demand.
func (s *epollSocket) Addr() netip.AddrPort {
	if !s.addr.IsValid() && !s.closed {
		s.addr, _ = boundTo(s.fd) // it fails only for a wrong descriptor
	}
	return s.addr
}

func (s *epollSocket) Close() {
	if s.closed {
		return
	}
	s.poller.out.flushSocket(s)
	if !s.dialed() || s.queued { // else its buffer was never full
		s.countDrops()
	}
	s.closed = true
	if !s.dialed() || s.given != 0 { // another process has a copy
		s.poller.unwatch(s.fd)
	}
	if !s.poller.keepIdle(s) {
		s.poller.release(s.fd)
	}
}

func (s *epollSocket) shut() {
	s.Close()
	if s.idle {
		s.poller.release(s.fd)
	}
}

// bind, connect and boundTo are the calls of package unix for netip addresses. connect and boundTo are raw system
// calls, as in mmsg_linux.go, because each session needs them and they do not block.

// AllowFragments implements FragmentControl.
func (s *epollSocket) AllowFragments() error {
	err := forbidFragments(s.fd, s.family, false)
	s.dontFragment = s.dontFragment && err != nil
	return err
}

// setBuffer sets the size of a kernel buffer. It exceeds the system's limit if the process is allowed to.
func setBuffer(fd, force, ask, size int) error {
	if size == 0 || setOption(fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return setOption(fd, unix.SOL_SOCKET, ask, size)
}

func setReceiveBuffer(fd, size int) error {
	return setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
}

// setReadBuffer sets the receive buffer of a socket of package net.
func setReadBuffer(conn *net.UDPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = setReceiveBuffer(int(fd), size) })
	if err != nil {
		return err
	}
	return inner
}

// GrantedBuffer returns how much of a receive buffer the kernel grants this process. Without the capability
// CAP_NET_ADMIN the limit is net.core.rmem_max.
func GrantedBuffer(size int) (int, error) {
	fd, err := openSocket(unix.AF_INET, SocketOptions{ReceiveBuffer: size})
	if err != nil {
		return 0, err
	}
	doubled, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return doubled / 2, closeAfter(fd, os.NewSyscallError("getsockopt", err))
}

// A closed dialed socket is kept for the next Dial: disconnected, it has neither peer nor port, and Dial connects it
// again. That takes a third of the time of opening a new one with its options and its place in the epoll set. The
// peer cannot tell, because the port is new.

// maxIdle bounds the idle sockets of a Poller. Each takes 2.8 KB in the kernel. idleShare is the divisor of the
// process's descriptors that they may use.
const (
	maxIdle   = 512
	idleShare = 16
)

// maxDiscarded bounds the datagrams that are discarded at a time. Buffers of the usual size hold 277.
const maxDiscarded = 512

// isReusable reports whether sockets dialed with the options differ only in settings that reconnect can change.
func (o SocketOptions) isReusable() bool {
	o.DontFragment, o.SourceKey, o.ReceiveBuffer = false, 0, 0
	return o == SocketOptions{}
}

// dialConnected opens a separate socket to a peer.
func (p *epollPoller) dialConnected(to netip.AddrPort, o SocketOptions) (*epollSocket, error) {
	if !o.isReusable() {
		return p.open(to, o, connect)
	}
	if s := p.reuse(to, o); s != nil {
		return s, nil
	}
	s, err := p.open(to, o, connect)
	if err == nil {
		s.reusable, s.dontFragment, s.buffer = true, o.DontFragment, o.ReceiveBuffer
	}
	return s, err
}

// keepIdle disconnects a closed socket for the next Dial, and reports whether it could.
func (p *epollPoller) keepIdle(s *epollSocket) bool {
	if !s.reusable || s.given != 0 || p.closed || p.guest || len(p.idleSockets) >= min(maxIdle, p.bound/idleShare) {
		return false
	}
	if !disconnect(s.fd) {
		return false
	}
	s.idle, s.idleSince = true, p.turn
	p.idleSockets = append(p.idleSockets, s)
	return true
}

// isDrained reports whether an idle socket certainly has no input: it was polled since it was disconnected.
func (p *epollPoller) isDrained(s *epollSocket) bool {
	return p.sawAll && s.idleSince != p.turn || discard(s.fd)
}

// reuse connects the socket that was idle longest. It returns nil if none of the family is idle or the connect fails.
// A new socket then reports the cause.
func (p *epollPoller) reuse(to netip.AddrPort, o SocketOptions) *epollSocket {
	family := familyOf(to)
	i := slices.IndexFunc(p.idleSockets, func(s *epollSocket) bool { return s.family == family })
	if i < 0 || !to.IsValid() {
		return nil
	}
	old := p.idleSockets[i]
	p.idleSockets = slices.Delete(p.idleSockets, i, i+1)
	old.idle = false
	s := &epollSocket{
		poller: p, fd: old.fd, family: family, drops: old.drops,
		reusable: true, dontFragment: old.dontFragment, buffer: old.buffer,
	}
	if !p.isDrained(old) || s.reconnect(to, o) != nil {
		p.release(s.fd)
		return nil
	}
	p.sockets[s.fd] = s
	return s
}

func (s *epollSocket) reconnect(to netip.AddrPort, o SocketOptions) error {
	if s.dontFragment != o.DontFragment {
		if err := forbidFragments(s.fd, s.family, o.DontFragment); err != nil {
			return err
		}
		s.dontFragment = o.DontFragment
	}
	if s.buffer != o.ReceiveBuffer {
		if err := setReceiveBuffer(s.fd, o.ReceiveBuffer); err != nil {
			return err
		}
		s.buffer = o.ReceiveBuffer
	}
	return connect(s.fd, s.family, to) // gives it a new port, which Addr asks for later
}

// discard drops the datagrams and errors that a socket received before it was disconnected. It reports whether those
// were all.
func discard(fd int) bool {
	var b [1]byte
	for range maxDiscarded {
		if _, errno := recv(fd, b[:]); errno == unix.EAGAIN {
			return true
		}
	}
	return false
}

// disconnect removes peer and port of a socket whose port came from connect, and reports whether it could.
func disconnect(fd int) bool {
	unspecified := sockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)),
		unix.SizeofSockaddrInet6)
	return errno == 0
}

// CheckSources returns an error if a prefix cannot be SocketOptions.Sources on this machine as it is configured now.
// A route of type local must cover the prefix.
func CheckSources(prefix netip.Prefix) error {
	family := unix.AF_INET
	if prefix.Addr().Is6() {
		family = unix.AF_INET6
	}
	table, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, family)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	for i := range messages {
		if route, ok := localRoute(&messages[i]); ok && route.Bits() <= prefix.Bits() && route.Contains(prefix.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("%s is not local to this machine: ip route add local %s dev lo", prefix, prefix)
}

// localRoute returns the destination of a route of type local.
func localRoute(m *syscall.NetlinkMessage) (netip.Prefix, bool) {
	// struct rtmsg: family, bits of the destination, three more fields, and the type at offset 7.
	if m.Header.Type != unix.RTM_NEWROUTE || len(m.Data) < unix.SizeofRtMsg || m.Data[7] != unix.RTN_LOCAL {
		return netip.Prefix{}, false
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return netip.Prefix{}, false
	}
	for _, a := range attributes {
		if a.Attr.Type != unix.RTA_DST {
			continue
		}
		if ip, ok := netip.AddrFromSlice(a.Value); ok {
			return netip.PrefixFrom(ip, int(m.Data[1])), true
		}
	}
	return netip.Prefix{}, false
}

// CheckTransparent returns an error if sockets cannot use foreign addresses (SocketOptions.TransparentSource). It
// cannot see whether answers to such addresses are routed to this machine, and by it to itself.
func CheckTransparent() error {
	fd, err := openSocket(unix.AF_INET, SocketOptions{})
	if err != nil {
		return err
	}
	return closeAfter(fd, setTransparent(fd, unix.AF_INET))
}

// dialTransparent opens a socket with a foreign source address.
func (p *epollPoller) dialTransparent(to netip.AddrPort, o SocketOptions) (*epollSocket, error) {
	return p.open(to, o, func(fd, family int, to netip.AddrPort) error {
		if familyOf(o.TransparentSource) != family {
			return fmt.Errorf("source %s: %w: its family is not the peer's", o.TransparentSource, ErrAddress)
		}
		if err := setTransparent(fd, family); err != nil {
			return err
		}
		// One client may be connected to two peers.
		if err := setOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if err := bind(fd, family, o.TransparentSource); err != nil {
			return fmt.Errorf("bind to source %s: %w", o.TransparentSource, err)
		}
		return connect(fd, family, to)
	})
}

// setTransparent allows a socket to bind to a foreign address.
func setTransparent(fd, family int) error {
	level, name := unix.SOL_IP, unix.IP_TRANSPARENT
	if family == unix.AF_INET6 {
		level, name = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	err := unix.SetsockoptInt(fd, level, name, 1)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: missing capability CAP_NET_ADMIN", err)
	}
	return err
}

// demultiplexer finds the Socket for a datagram of a descriptor that several Sockets share.
type demultiplexer interface {
	// socketOf returns nil for a datagram of an unknown peer. at is the destination address, if known.
	socketOf(from netip.AddrPort, at netip.Addr) Socket
}

// virtualSocket is a dialed Socket that shares its descriptor with others.
type virtualSocket struct {
	endpoint
	shared  *sharedSocket
	control [sourceRoom]byte // with the source address
	length  uint8            // of control; 0: no source address of its own
}

// source returns the control message with the source address, or nil.
func (l *virtualSocket) source() []byte {
	if l.length == 0 {
		return nil
	}
	return l.control[:l.length]
}

// key returns the key of the virtual socket in its shared socket.
func (l *virtualSocket) key() virtualKey {
	if l.length == 0 {
		return keyOf(netip.Addr{}, l.peer)
	}
	return keyOf(l.addr.Addr(), l.peer)
}

// virtualKey identifies a virtual socket of a descriptor. It has no padding, so hashing it is one step.
type virtualKey struct {
	at, peer [16]byte // at is zero if the members have no addresses of their own
	port     [2]byte  // of the peer
}

func keyOf(at netip.Addr, peer netip.AddrPort) virtualKey {
	k := virtualKey{peer: peer.Addr().As16(), port: [2]byte{byte(peer.Port() >> 8), byte(peer.Port())}}
	if at.IsValid() {
		k.at = at.As16()
	}
	return k
}

func (l *virtualSocket) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.shared.remove(l)
}

// sharedSocket is a descriptor whose members are found by their peer and, if they have one, by their own address.
// Datagrams from unknown peers are dropped and counted.
type sharedSocket struct {
	*epollSocket
	kind         sharedKind
	members      map[virtualKey]*virtualSocket
	ownAddresses bool                   // each member has its own address
	onClose      func(l *virtualSocket) // called after a member has closed
}

func (h *sharedSocket) socketOf(from netip.AddrPort, at netip.Addr) Socket {
	if !h.ownAddresses {
		at = netip.Addr{}
	}
	if l := h.members[keyOf(at, from)]; l != nil {
		return l
	}
	return nil
}

// add opens a virtual socket. Its key must be free.
func (h *sharedSocket) add(at netip.Addr, peer netip.AddrPort) *virtualSocket {
	l := &virtualSocket{endpoint: endpoint{addr: h.addr, peer: peer}, shared: h}
	if at.IsValid() {
		l.addr = netip.AddrPortFrom(at, h.addr.Port())
		l.length = uint8(len(system.appendSource(l.control[:0], at)))
	}
	h.members[l.key()] = l
	return l
}

func (h *sharedSocket) remove(l *virtualSocket) {
	delete(h.members, l.key())
	h.onClose(l)
}
