package relay

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/session"
)

// Foresee notes that Receive soon gets a datagram. It implements netio.Foreseer. The memory of many sessions is in no
// cache of the processor, so it is fetched for several sessions at once.
func (r *Relay) Foresee(s netio.Socket, from netip.AddrPort) {
	e, _ := s.Owner().(*Entry)
	if l, ok := s.Owner().(*listener); ok && l.route.Mode != policy.ModeRelay {
		e = r.table.peek(session.Key{Listener: l.index, Client: from})
	}
	if e != nil {
		r.sockets.ahead = append(r.sockets.ahead, e)
	}
}

// fetch reads what the noted datagrams need.
func (r *Relay) fetch() {
	all := r.sockets.ahead
	for _, e := range all {
		codec.Touch(e)
	}
	for _, e := range all {
		codec.Touch(e.Value.terminated)
	}
	for step := range codec.FetchSteps {
		for _, e := range all {
			if !e.Value.isRelayed() {
				e.Value.client.fetch(step)
				e.Value.upstream.fetch(step)
			}
		}
	}
	clear(all)
	r.sockets.ahead = all[:0]
}

func (s *side) fetch(step int) {
	if f, ok := s.Conn.(codec.Fetcher); ok {
		f.Fetch(step)
	}
}
