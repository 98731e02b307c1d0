package netio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// errWrongSocket says that a socket has the wrong type.
var errWrongSocket = errors.New("wrong type of socket")

func (p *epollPoller) Adopt(from int, o SocketOptions) (Socket, error) {
	fd, family, err := p.adoptDescriptor(from, unix.SOCK_DGRAM)
	if err != nil {
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	s := &epollSocket{poller: p, fd: fd, family: family}
	s.drops = s.KernelDrops() // earlier drops belong to the other process
	if err := setOptions(fd, family, o.withListenDefaults()); err != nil {
		return nil, closeAfter(fd, err)
	}
	if s.addr, err = boundTo(fd); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := s.answerFromUsedAddress(); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := p.watch(s, fd, unix.EPOLLIN); err != nil {
		return nil, closeAfter(fd, err)
	}
	return s, nil
}

func (p *epollPoller) AdoptStream(from int, o StreamOptions) (Socket, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	fd, _, err := p.adoptDescriptor(from, unix.SOCK_STREAM)
	if err != nil {
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	l := &epollListener{poller: p, fd: fd, options: o, greeted: newHellos(o.Hellos)}
	if err := l.start(); err != nil {
		return nil, closeAfter(fd, err)
	}
	return l, nil
}

// adoptDescriptor copies the descriptor of a socket and checks its type.
func (p *epollPoller) adoptDescriptor(from, kind int) (fd, family int, err error) {
	if p.closed {
		return -1, 0, ErrClosed
	}
	if fd, err = Duplicate(from); err != nil {
		return -1, 0, err
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return -1, 0, closeAfter(fd, os.NewSyscallError("getsockopt", err))
	}
	if got != kind {
		return -1, 0, closeAfter(fd, errWrongSocket)
	}
	if family, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return -1, 0, closeAfter(fd, err)
	}
	return fd, family, nil
}

func (p *epollPoller) Copy(s Socket) (int, error) {
	fd, ok := descriptorOf(s)
	if !ok {
		return -1, errWrongSocket
	}
	return Duplicate(fd)
}

// descriptorOf returns the file descriptor of a socket that may be handed over.
func descriptorOf(s Socket) (fd int, ok bool) {
	switch s := s.(type) {
	case *epollSocket:
		return s.fd, true
	case *epollListener:
		return s.fd, true
	}
	return -1, false
}

// Duplicate copies a descriptor. The copy is closed on exec.
func Duplicate(fd int) (int, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return copied, os.NewSyscallError("fcntl", err)
}

// TakeDescriptor returns the descriptor of a file, which it closes.
func TakeDescriptor(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, errors.Join(err, f.Close())
	}
	var inner error
	err = raw.Control(func(from uintptr) { fd, inner = Duplicate(int(from)) })
	return fd, errors.Join(err, inner, f.Close())
}

// BoundAddress returns the address of a socket of another process, and whether it is a TCP socket.
func BoundAddress(fd int) (addr netip.AddrPort, stream bool, err error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return addr, false, os.NewSyscallError("getsockopt", err)
	}
	addr, err = boundTo(fd)
	return addr, kind == unix.SOCK_STREAM, err
}

// givenAtOnce bounds the sockets of a Give: a loop does it between two turns.
const givenAtOnce = 512

// giving is the state of Give.
type giving struct {
	round uint8 // of the sockets given since the first Give
	next  int   // descriptor
}

func (p *epollPoller) Give(first bool) (state []byte, given []int, more bool) {
	g := &p.giving
	if first {
		g.next = 0
		if g.round++; g.round == 0 {
			g.round = 1
		}
	}
	part := new(savedPart)
	for ; g.next < len(p.sockets) && len(given) < givenAtOnce; g.next++ {
		s, ok := p.sockets[g.next].(*epollSocket)
		h := sharedOf(p.sockets[g.next])
		if !ok || s.closed || h == nil && !s.dialed() {
			continue
		}
		fd, err := Duplicate(s.fd)
		if err != nil {
			return part.appendTo(nil), given, false // no descriptor is free: Export has the other sockets
		}
		s.given = g.round
		if h != nil {
			part.saveShared(h)
		} else {
			part.saveDialed(s)
		}
		part.Numbers, given = append(part.Numbers, s.fd), append(given, fd)
	}
	return part.appendTo(nil), given, g.next < len(p.sockets)
}

// CloseCopies closes descriptors, such as the copies of a Give.
func CloseCopies(descriptors []int) {
	for _, fd := range descriptors {
		_ = unix.Close(fd)
	}
}

func (p *epollPoller) Export(given bool) (state []byte, descriptors []int) {
	part := new(savedPart)
	next := func(full bool) {
		if full || part.size() >= partSize {
			state, part = part.appendTo(state), new(savedPart)
		}
	}
	for fd, w := range p.sockets {
		if !part.save(w, given) {
			continue
		}
		part.Numbers = append(part.Numbers, fd)
		descriptors = append(descriptors, fd)
		next(false)
	}
	for fd, w := range p.sockets {
		if h := sharedOf(w); h != nil && !given {
			for _, l := range h.members {
				m := savedMember{Number: fd, Peer: l.peer}
				if l.length > 0 {
					m.At = l.addr.Addr()
				}
				part.Members = append(part.Members, m)
				next(false)
			}
		}
	}
	next(true)
	return state, descriptors
}

// sharedOf returns the shared socket of a descriptor, or nil.
func sharedOf(w watched) *sharedSocket {
	if s, ok := w.(*epollSocket); ok {
		h, _ := s.demux.(*sharedSocket)
		return h
	}
	return nil
}

// save adds a socket to the part, and reports whether its descriptor is exported. given leaves out given sockets.
func (s *savedPart) save(w watched, given bool) bool {
	switch w := w.(type) {
	case *epollStream:
		s.Streams = append(s.Streams, w.saved())
		return true
	case *epollSocket:
		h := sharedOf(w)
		if w.closed || h == nil && !w.dialed() {
			return false
		}
		if w.queued || w.drops > 0 {
			s.Drops = append(s.Drops, savedDrops{w.fd, w.drops})
		}
		switch {
		case given && w.given != 0 && w.given == w.poller.giving.round:
			return false
		case h == nil:
			s.saveDialed(w)
		default:
			s.saveShared(h)
		}
		return true
	}
	return false
}

func (s *savedPart) saveDialed(w *epollSocket) {
	for i := range s.Dialed {
		g := &s.Dialed[i]
		if g.Reusable == w.reusable && g.DontFragment == w.dontFragment && g.Buffer == w.buffer {
			g.Numbers = append(g.Numbers, w.fd)
			return
		}
	}
	s.Dialed = append(s.Dialed, savedDialed{w.reusable, w.dontFragment, w.buffer, []int{w.fd}})
}

func (s *savedPart) saveShared(h *sharedSocket) {
	s.Shared = append(s.Shared, savedShared{
		h.fd, h.kind.family == unix.AF_INET6, h.kind.dontFragment, h.kind.local, h.kind.buffer, h.ownAddresses,
	})
}

func (s *epollStream) saved() savedStream {
	all := savedStream{
		Number: s.fd, Addr: s.addr, Peer: s.peer, Prefix: s.framing.prefix, MaxFrame: s.framing.max, Limit: s.limit,
		Rest: s.rest, Backlog: s.backlog, Connecting: s.connecting, Wrote: s.wrote, Lingers: s.closed,
		Silent: !s.closed && s.timer.queue != nil, Ended: s.ending,
	}
	if s.listener != nil {
		all.Listener = s.listener.addr
	}
	return all
}

func (p *epollPoller) AppendName(b []byte, s Socket) []byte {
	switch s := s.(type) {
	case *epollStream:
		if s.fd < 0 || p.sockets[s.fd] != watched(s) { // its number may be another socket's by now
			return appendAddress(appendAddress(append(b, ended), s.addr), s.peer)
		}
		return binary.AppendUvarint(append(b, numbered), uint64(s.fd))
	case *epollSocket:
		return binary.AppendUvarint(append(b, numbered), uint64(s.fd))
	case *virtualSocket:
		b = binary.AppendUvarint(append(b, virtual), uint64(s.shared.fd))
		k := s.key()
		return append(append(append(b, k.at[:]...), k.peer[:]...), k.port[:]...)
	}
	return b
}

// appendAddress appends an address after its length.
func appendAddress(b []byte, a netip.AddrPort) []byte {
	text, _ := a.MarshalBinary() // never fails
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func (p *epollPoller) Leave() {
	if p.closed {
		return
	}
	p.closed = true
	_ = p.waiter.close() // first, so that the kernel need not take each socket out of the set
	for fd, s := range p.sockets {
		if s != nil {
			_ = unix.Close(fd)
		}
	}
}
