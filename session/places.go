package session

import (
	"hash/maphash"
	"net/netip"
	"sync"

	"tidegate/internal/source"
)

// Places counts the sessions of each address and of each network. The Tables of all loops share it, because the kernel
// spreads the clients of one address over the loops. It has at most one key per session.
type Places struct {
	seed   maphash.Seed
	shards [placeShards]placeShard
}

// placeShards is the number of locks. Each is held for two look-ups.
const placeShards = 64

type placeShard struct {
	mu                  sync.Mutex
	addresses, networks map[netip.Prefix]int
}

// NewPlaces returns Places without sessions.
func NewPlaces() *Places {
	p := &Places{seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].addresses, p.shards[i].networks = make(map[netip.Prefix]int), make(map[netip.Prefix]int)
	}
	return p
}

// place is a client as Places count it.
type place struct{ address, network netip.Prefix }

func placeOf(client netip.Addr) place {
	of := source.Of(client)
	return place{of.Address(), of.Network()}
}

func (p *Places) shardOf(at place) *placeShard {
	return &p.shards[maphash.Comparable(p.seed, at.network)%placeShards]
}

// room returns the reason why a client may have no further session, or nil.
func (p *Places) room(l *Limits, client netip.Addr) error {
	if l.Address == 0 && l.Network == 0 {
		return nil
	}
	at := placeOf(client)
	s := p.shardOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room(l, at)
}

func (s *placeShard) room(l *Limits, at place) error {
	switch {
	case l.Address > 0 && s.addresses[at.address] >= l.Address:
		return ErrAddressFull
	case l.Network > 0 && s.networks[at.network] >= l.Network:
		return ErrNetworkFull
	}
	return nil
}

// take counts a session, or returns the reason why the client may have no further one.
func (p *Places) take(l *Limits, client netip.Addr) error {
	at := placeOf(client)
	s := p.shardOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(l, at); err != nil {
		return err
	}
	s.addresses[at.address]++
	s.networks[at.network]++
	return nil
}

// Len returns the number of addresses and networks with sessions.
func (p *Places) Len() (n int) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		n += len(s.addresses) + len(s.networks)
		s.mu.Unlock()
	}
	return n
}

// leave stops counting a session.
func (p *Places) leave(client netip.Addr) {
	at := placeOf(client)
	s := p.shardOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	less(s.addresses, at.address)
	less(s.networks, at.network)
}
