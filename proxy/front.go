package proxy

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/proxyproto"
	"tidegate/proxy/stats"
)

// errNoHeader: a trusted proxy's datagram does not say whose it is, and none did before.
var errNoHeader = errors.New("no PROXY protocol header, and none before it")

// front is a proxy before us that says whose datagrams it passes on.
type front struct {
	addr   netip.AddrPort // where answers go; invalid where there is no such proxy
	header proxyproto.Header
}

// to is where what is meant for a client is sent. The nil front is none.
func (f *front) to(client netip.AddrPort) netip.AddrPort {
	if f == nil || !f.addr.IsValid() {
		return client
	}
	return f.addr
}

// begin begins a datagram for the client.
func (f *front) begin(b []byte) []byte {
	if f.simple() {
		return f.header.Append(b)
	}
	return b
}

// headerLen is how many bytes of a datagram for the client are the header for the front.
func (f *front) headerLen() int {
	if f.simple() {
		return f.header.Len()
	}
	return 0
}

// simple reports whether answers need a header too.
func (f *front) simple() bool {
	return f != nil && f.addr.IsValid() && f.header.Format == proxyproto.Simple
}

// fronts are the trusted proxies before a door.
type fronts struct {
	trusted []netip.Prefix
	at      front // by which the datagram at hand came
	// Most proxies send a header in their first datagram only. recent and older remember those by the proxies' addresses,
	// each up to most of them: whoever has not been heard of for longer is forgotten.
	recent, older map[netip.AddrPort]proxyproto.Header
	most          int
}

// newFronts returns those of a door that had old ones, or nil where nobody is trusted.
func newFronts(trusted []netip.Prefix, most int, old *fronts) *fronts {
	if len(trusted) == 0 {
		return nil
	}
	f := &fronts{trusted: trusted, most: most, recent: make(map[netip.AddrPort]proxyproto.Header)}
	if old != nil {
		f.recent, f.older = old.recent, old.older
	}
	return f
}

// unwrapProxied finds out whose a datagram is. It returns the client, or reports false where the datagram goes no further.
func (r *Relay) unwrapProxied(now time.Time, d *door, from netip.AddrPort, datagram []byte) (netip.AddrPort, []byte, bool) {
	f := d.fronts
	f.at = front{}
	if !f.trusts(from.Addr()) {
		if proxyproto.HasV2(datagram) {
			r.drop(now, stats.DropUntrusted, d, from, len(datagram), nil)
			return from, nil, false
		}
		return from, datagram, true
	}
	h, rest, err := proxyproto.Parse(datagram)
	if errors.Is(err, proxyproto.ErrNone) {
		var ok bool
		if h, ok = f.recall(from); !ok {
			r.drop(now, stats.DropUntold, d, from, len(datagram), errNoHeader)
			return from, nil, false
		}
	} else if err != nil {
		r.drop(now, stats.DropMalformed, d, from, len(datagram), err)
		return from, nil, false
	} else {
		f.remember(from, h)
	}
	if h.Local {
		return from, rest, true
	}
	f.at = front{from, h}
	return h.Client, rest, true
}

func (f *fronts) trusts(addr netip.Addr) bool {
	for _, p := range f.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// recall finds what a proxy's address said last.
func (f *fronts) recall(from netip.AddrPort) (proxyproto.Header, bool) {
	if h, ok := f.recent[from]; ok {
		return h, true
	}
	h, ok := f.older[from]
	if ok {
		f.remember(from, h)
	}
	return h, ok
}

func (f *fronts) remember(from netip.AddrPort, h proxyproto.Header) {
	if old, ok := f.recent[from]; ok && old == h {
		return
	}
	if len(f.recent) >= f.most {
		f.recent, f.older = make(map[netip.AddrPort]proxyproto.Header), f.recent
	}
	f.recent[from] = h
}

// via is the front that a session goes by from now on, given the one it went by so far. Nil is none.
func (d *door) via(so *front) *front {
	if d.fronts == nil || !d.fronts.at.addr.IsValid() {
		return so
	}
	if so != nil && *so == d.fronts.at {
		return so
	}
	at := d.fronts.at
	return &at
}

// sendAnswer sends a stranger an answer, by the way that the datagram at hand came.
func (r *Relay) sendAnswer(d *door, s netio.Socket, client netip.AddrPort, answer []byte) {
	if d.fronts == nil {
		r.sockets.Send(s, client, answer)
		return
	}
	via := &d.fronts.at
	if via.simple() {
		r.scratch = append(via.begin(r.scratch[:0]), answer...)
		answer = r.scratch
	}
	r.sockets.Send(s, via.to(client), answer)
}
