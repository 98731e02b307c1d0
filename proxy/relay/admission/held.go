package admission

import (
	ordered "container/heap"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"tidegate/internal/source"
)

// HeldBounds bound the memory in bytes that sessions hold for their peers: messages with missing parts, messages that
// wait for an earlier one, data of handshakes, unfinished frames of streams, and worlds. 0 means no bound.
type HeldBounds struct {
	Session int
	Address int // the sessions of one address, in IPv6 of one /64, on all loops together
	Overall int // of one loop
}

// HeldFigures are the bytes that sessions hold for their peers.
type HeldFigures struct {
	Overall int
	Address int // of the address that holds most in one loop, with its bytes on all loops
}

// Add joins the figures of another loop.
func (f *HeldFigures) Add(o HeldFigures) {
	f.Overall += o.Overall
	f.Address = max(f.Address, o.Address)
}

// Figures returns what the sessions of the loop hold.
func (h *Holdings) Figures() HeldFigures {
	f := HeldFigures{Overall: h.total}
	if len(h.largest) > 0 {
		f.Address = int(h.largest[0].shared.bytes.Load())
	}
	return f
}

// Addresses returns the number of addresses whose sessions hold memory on the loop.
func (h *Holdings) Addresses() int { return len(h.addresses) }

// Reasons why a session must give up what it holds.
var (
	errHeldSession = errors.New("a session's part of limits.held_bytes")
	errHeldAddress = errors.New("an address's part of limits.held_bytes")
	errHeldOverall = errors.New("limits.held_bytes")
)

// leastHolding is the number of bytes from which on a session counts as a holder of its address. It is more than the
// data of any handshake, so most sessions never do.
const leastHolding = 2 << 10

// Holdings count the memory that the sessions of a loop hold. Beyond a bound, the largest session of the address that
// holds most gives way. So an address with many small holders goes before an honest player with one large message.
// Sessions change their account in logarithmic time, and not at all while they hold nothing.
type Holdings struct {
	Bounds HeldBounds
	Shared *Holders

	total     int
	addresses map[netip.Prefix]*holder
	largest   holderHeap
	unused    []*holder
}

// Holders counts the memory that each address holds on all loops. Otherwise an address with sessions on many loops
// would have the bound of each. Its lock is held while an address begins or ends to hold memory on a loop.
type Holders struct {
	mu        sync.Mutex
	addresses map[netip.Prefix]*heldByAddress
}

type heldByAddress struct {
	bytes atomic.Int64
	loops int
}

func (h *Holders) join(address netip.Prefix) *heldByAddress {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.addresses[address]
	if all == nil {
		if h.addresses == nil {
			h.addresses = make(map[netip.Prefix]*heldByAddress)
		}
		all = new(heldByAddress)
		h.addresses[address] = all
	}
	all.loops++
	return all
}

func (h *Holders) leave(address netip.Prefix, all *heldByAddress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all.loops--; all.loops == 0 {
		delete(h.addresses, address)
	}
}

// holder is an address whose sessions hold memory.
type holder struct {
	address  netip.Prefix
	shared   *heldByAddress
	bytes    int
	at       int // index in the heap
	sessions []held
}

// held is a session that holds memory, and its account.
type held struct {
	owner   any // the session
	holding *Holding
}

// Holding is the account of one session.
type Holding struct {
	of    *holder // nil below leastHolding
	at    int32   // index in of.sessions
	bytes int32
}

// keptHolders bounds the unused holders that are kept for the next loss of a datagram.
const keptHolders = 256

// Bytes returns the bytes that the session holds.
func (own *Holding) Bytes() int { return int(own.bytes) }

// Set sets the account of a session, the owner, to bytes. The session has the Holding.
func (h *Holdings) Set(owner any, own *Holding, client netip.Addr, bytes int) {
	more := bytes - int(own.bytes)
	h.total += more
	own.bytes = int32(bytes)
	switch {
	case own.of == nil && bytes >= leastHolding:
		h.join(owner, own, client)
	case own.of == nil:
	case bytes < leastHolding:
		own.of.add(more)
		h.leave(own)
	default:
		own.of.add(more)
		ordered.Fix(&h.largest, own.of.at)
	}
}

func (of *holder) add(more int) {
	of.bytes += more
	of.shared.bytes.Add(int64(more))
}

func (h *Holdings) join(owner any, own *Holding, client netip.Addr) {
	address := source.Of(client).Address()
	of := h.addresses[address]
	if of == nil {
		if of = h.spare(); h.addresses == nil {
			h.addresses = make(map[netip.Prefix]*holder)
		}
		of.address, of.shared = address, h.Shared.join(address)
		h.addresses[address] = of
		ordered.Push(&h.largest, of)
	}
	own.of, own.at = of, int32(len(of.sessions))
	of.sessions = append(of.sessions, held{owner, own})
	of.add(int(own.bytes))
	ordered.Fix(&h.largest, of.at)
}

func (h *Holdings) leave(own *Holding) {
	of := own.of
	of.add(-int(own.bytes))
	last := len(of.sessions) - 1
	moved := of.sessions[last]
	of.sessions[own.at], of.sessions[last] = moved, held{}
	moved.holding.at = own.at
	of.sessions = of.sessions[:last]
	own.of = nil
	if last > 0 {
		ordered.Fix(&h.largest, of.at)
		return
	}
	ordered.Remove(&h.largest, of.at)
	delete(h.addresses, of.address)
	h.Shared.leave(of.address, of.shared)
	if len(h.unused) < keptHolders && cap(of.sessions) <= keptHolders {
		h.unused = append(h.unused, of)
	}
}

func (h *Holdings) spare() *holder {
	last := len(h.unused) - 1
	if last < 0 {
		return new(holder)
	}
	of := h.unused[last]
	h.unused = h.unused[:last]
	of.bytes = 0
	return of
}

// most returns the session of the address that holds most.
func (of *holder) most() any {
	most := of.sessions[0]
	for _, one := range of.sessions[1:] {
		if one.holding.bytes > most.holding.bytes {
			most = one
		}
	}
	return most.owner
}

// Excess returns the owner of an account that must give way after another account has grown, and why. It returns nil
// if no bound is exceeded.
func (h *Holdings) Excess(owner any, own *Holding) (victim any, why error) {
	b := &h.Bounds
	switch {
	case b.Session > 0 && int(own.bytes) > b.Session:
		return owner, errHeldSession
	case own.of != nil && b.Address > 0 && own.of.shared.bytes.Load() > int64(b.Address):
		return own.of.most(), errHeldAddress
	case b.Overall > 0 && h.total > b.Overall && len(h.largest) > 0:
		return h.largest[0].most(), errHeldOverall
	}
	return nil, nil
}

// holderHeap has the addresses that hold memory, the largest first.
type holderHeap []*holder

func (h holderHeap) Len() int           { return len(h) }
func (h holderHeap) Less(i, j int) bool { return h[i].bytes > h[j].bytes }

func (h holderHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *holderHeap) Push(x any) {
	of := x.(*holder)
	of.at = len(*h)
	*h = append(*h, of)
}

// Pop implements heap.Interface.
func (h *holderHeap) Pop() any {
	last := len(*h) - 1
	of := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return of
}
