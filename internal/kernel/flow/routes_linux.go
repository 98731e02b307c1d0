package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// routes asks the kernel for next hops and listens for route changes.
type routes struct {
	handle  *netlink.Handle
	news    *nl.NetlinkSocket
	stopped atomic.Bool   // changes are no longer received
	events  atomic.Uint64 // number of changes so far
	ended   chan struct{} // closed when listen returns

	mu    sync.Mutex
	known map[[2]netip.Addr]hop // by source and destination; cleared on each change
}

// maxKnown bounds the cached next hops. Beyond it, the kernel is asked each time.
const maxKnown = 4096

// hop is the kernel's next hop to an address.
type hop struct {
	device   int  // interface
	loopback bool // the address is the host's own
}

// newRoutes calls changed for each change, on its own goroutine, until close.
func newRoutes(changed func(change)) (*routes, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	news, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		handle.Close()
		return nil, fmt.Errorf("netlink: %w", err)
	}
	r := &routes{handle: handle, news: news, ended: make(chan struct{}), known: make(map[[2]netip.Addr]hop)}
	go r.listen(changed)
	return r, nil
}

// errNoEvents is returned when a route may change unnoticed.
var errNoEvents = errors.New("no route change events from the kernel")

// find returns the next hop of a packet, from the cache or the kernel.
func (r *routes) find(from, to netip.Addr) (hop, error) {
	if r.stopped.Load() {
		return hop{}, errNoEvents
	}
	ends, events := [2]netip.Addr{from, to}, r.events.Load()
	r.mu.Lock()
	h, ok := r.known[ends]
	r.mu.Unlock()
	if ok {
		return h, nil
	}
	h, err := r.ask(from, to)
	if err != nil {
		return hop{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events.Load() == events && len(r.known) < maxKnown {
		r.known[ends] = h
	}
	return h, nil
}

func (r *routes) ask(from, to netip.Addr) (hop, error) {
	found, err := r.handle.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil || len(found) == 0 {
		return hop{}, fmt.Errorf("no route from %s to %s: %w", from, to, err)
	}
	switch found[0].Type {
	case unix.RTN_LOCAL:
		return hop{found[0].LinkIndex, true}, nil
	case unix.RTN_UNICAST:
		return hop{found[0].LinkIndex, false}, nil
	}
	return hop{}, fmt.Errorf("the route from %s to %s is of type %d", from, to, found[0].Type)
}

// notify clears the cache and passes a change on.
func (r *routes) notify(c change, changed func(change)) {
	r.mu.Lock()
	r.events.Add(1)
	clear(r.known)
	r.mu.Unlock()
	changed(c)
}

func (r *routes) close() {
	r.stopped.Store(true)
	r.news.Close()
	<-r.ended
	r.handle.Close()
}

func (r *routes) listen(changed func(change)) {
	defer close(r.ended)
	for {
		messages, _, err := r.news.Receive()
		switch {
		case r.stopped.Load():
			return
		case errors.Is(err, unix.ENOBUFS): // the socket's buffer overflowed
			r.notify(change{all: true}, changed)
			continue
		case err != nil:
			r.stopped.Store(true)
			r.notify(change{all: true}, changed)
			return
		}
		for i := range messages {
			if c, ok := parseChange(&messages[i]); ok {
				r.notify(c, changed)
			}
		}
	}
}

// change is a network change that may alter a flow's route.
type change struct {
	all    bool         // details unknown
	device int          // this interface is down; 0: none
	gone   bool         // and it was removed
	route  netip.Prefix // the route to this network changed
	addr   netip.Addr   // the host lost this address
}

// affects reports whether a flow's route may have changed.
func (c *change) affects(k *key, e *entry) bool {
	from, to := e.endpoints(k)
	switch {
	case c.all:
		return true
	case c.device != 0:
		return e.Out == uint32(c.device)
	case c.route.IsValid():
		return c.route.Contains(to)
	}
	return c.addr == from || c.addr == netip.AddrFrom16(k.To).Unmap()
}

// endpoints returns the addresses that the entry writes.
func (e *entry) endpoints(k *key) (from, to netip.Addr) {
	if netip.AddrFrom16(k.From).Is4In6() {
		return netip.AddrFrom4([4]byte(e.Rewrite[:4])), netip.AddrFrom4([4]byte(e.Rewrite[4:8]))
	}
	return netip.AddrFrom16([16]byte(e.Rewrite[:16])), netip.AddrFrom16([16]byte(e.Rewrite[16:32]))
}

// Sizes of the fixed parts of the kernel's messages, and the offsets of their fields, from rtnetlink(7).
const (
	routeLen, addrLen, linkLen = 12, 8, 16
	prefixLenAt                = 1
	linkIndexAt, linkFlagsAt   = 4, 8
)

// parseChange reads a message. ok is false if no flow can be affected.
func parseChange(m *syscall.NetlinkMessage) (c change, ok bool) {
	switch {
	case m.Header.Type == unix.RTM_NEWLINK && len(m.Data) >= linkLen:
		up := binary.NativeEndian.Uint32(m.Data[linkFlagsAt:])&unix.IFF_UP != 0
		return change{device: int(binary.NativeEndian.Uint32(m.Data[linkIndexAt:]))}, !up
	case m.Header.Type == unix.RTM_DELLINK && len(m.Data) >= linkLen && m.Data[0] == unix.AF_UNSPEC:
		return change{device: int(binary.NativeEndian.Uint32(m.Data[linkIndexAt:])), gone: true}, true
	case m.Header.Type == unix.RTM_DELADDR && len(m.Data) >= addrLen:
		c.addr = attribute(m.Data[addrLen:], unix.IFA_ADDRESS)
		return c, c.addr.IsValid()
	case (m.Header.Type == unix.RTM_NEWROUTE || m.Header.Type == unix.RTM_DELROUTE) && len(m.Data) >= routeLen:
		to := attribute(m.Data[routeLen:], unix.RTA_DST)
		if !to.IsValid() { // the default route has no destination
			to = map[byte]netip.Addr{unix.AF_INET: netip.IPv4Unspecified(), unix.AF_INET6: netip.IPv6Unspecified()}[m.Data[0]]
		}
		c.route = netip.PrefixFrom(to, int(m.Data[prefixLenAt]))
		return c, c.route.IsValid()
	}
	return change{}, false
}

// attribute returns the address in an attribute of a message; invalid if there is none.
func attribute(b []byte, kind uint16) (addr netip.Addr) {
	attributes, err := nl.ParseRouteAttr(b)
	if err != nil {
		return netip.Addr{}
	}
	for _, a := range attributes {
		if a.Attr.Type == kind {
			addr, _ = netip.AddrFromSlice(a.Value)
		}
	}
	return addr
}
