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

// routes asks the kernel for ways, and listens to what it says of their changes.
type routes struct {
	handle *netlink.Handle
	news   *nl.NetlinkSocket
	deaf   atomic.Bool   // nothing is heard of changes any more
	heard  atomic.Uint64 // changes so far
	ended  chan struct{} // listen has returned

	mu    sync.Mutex
	known map[[2]netip.Addr]way // from where to where; forgotten with each change
}

// maxKnown bounds the ways that are remembered. Beyond, the kernel is asked each time.
const maxKnown = 4096

// way is how the kernel would reach an address.
type way struct {
	device   int  // interface
	loopback bool // the address is the host's own
}

// newRoutes calls changed, on a goroutine of its own, with each change until close.
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
	r := &routes{handle: handle, news: news, ended: make(chan struct{}), known: make(map[[2]netip.Addr]way)}
	go r.listen(changed)
	return r, nil
}

// errDeaf tells that a way may change without our knowing.
var errDeaf = errors.New("the kernel tells of no changes of routes")

// find asks for the way that a packet would take now.
func (r *routes) find(from, to netip.Addr) (way, error) {
	if r.deaf.Load() {
		return way{}, errDeaf
	}
	ends, heard := [2]netip.Addr{from, to}, r.heard.Load()
	r.mu.Lock()
	w, ok := r.known[ends]
	r.mu.Unlock()
	if ok {
		return w, nil
	}
	w, err := r.ask(from, to)
	if err != nil {
		return way{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard.Load() == heard && len(r.known) < maxKnown {
		r.known[ends] = w
	}
	return w, nil
}

func (r *routes) ask(from, to netip.Addr) (way, error) {
	found, err := r.handle.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil || len(found) == 0 {
		return way{}, fmt.Errorf("no route from %s to %s: %w", from, to, err)
	}
	switch found[0].Type {
	case unix.RTN_LOCAL:
		return way{found[0].LinkIndex, true}, nil
	case unix.RTN_UNICAST:
		return way{found[0].LinkIndex, false}, nil
	}
	return way{}, fmt.Errorf("the route from %s to %s is of type %d", from, to, found[0].Type)
}

// happens forgets all ways, and passes a change on.
func (r *routes) happens(c change, changed func(change)) {
	r.mu.Lock()
	r.heard.Add(1)
	clear(r.known)
	r.mu.Unlock()
	changed(c)
}

func (r *routes) close() {
	r.deaf.Store(true)
	r.news.Close()
	<-r.ended
	r.handle.Close()
}

func (r *routes) listen(changed func(change)) {
	defer close(r.ended)
	for {
		messages, _, err := r.news.Receive()
		switch {
		case r.deaf.Load():
			return
		case errors.Is(err, unix.ENOBUFS): // there was more than the socket holds
			r.happens(change{all: true}, changed)
			continue
		case err != nil:
			r.deaf.Store(true)
			r.happens(change{all: true}, changed)
			return
		}
		for i := range messages {
			if c, ok := parseChange(&messages[i]); ok {
				r.happens(c, changed)
			}
		}
	}
}

// change is something in the network that may make another way of a flow's.
type change struct {
	all    bool         // it is not known what
	device int          // this interface carries nothing any more; 0: none
	gone   bool         // and is no more
	route  netip.Prefix // the way there is another
	addr   netip.Addr   // it is the host's own no more
}

// concerns reports whether a flow may have another way now.
func (c *change) concerns(k *key, e *entry) bool {
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

// endpoints are the addresses that the entry writes.
func (e *entry) endpoints(k *key) (from, to netip.Addr) {
	if netip.AddrFrom16(k.From).Is4In6() {
		return netip.AddrFrom4([4]byte(e.Rewrite[:4])), netip.AddrFrom4([4]byte(e.Rewrite[4:8]))
	}
	return netip.AddrFrom16([16]byte(e.Rewrite[:16])), netip.AddrFrom16([16]byte(e.Rewrite[16:32]))
}

// Sizes of the fixed parts of the kernel's messages, and where their fields are. rtnetlink(7)
const (
	routeLen, addrLen, linkLen = 12, 8, 16
	prefixLenAt                = 1
	linkIndexAt, linkFlagsAt   = 4, 8
)

// parseChange reads a message; ok is false if it is about nothing that matters to flows.
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
		if !to.IsValid() { // the default route says nothing
			to = map[byte]netip.Addr{unix.AF_INET: netip.IPv4Unspecified(), unix.AF_INET6: netip.IPv6Unspecified()}[m.Data[0]]
		}
		c.route = netip.PrefixFrom(to, int(m.Data[prefixLenAt]))
		return c, c.route.IsValid()
	}
	return change{}, false
}

// attribute is the address in an attribute of a message; invalid if there is none.
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
