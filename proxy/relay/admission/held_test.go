package admission

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// hoard is a session that holds memory.
type hoard struct {
	holding Holding
	client  netip.Addr
}

func hoardOf(host byte) *hoard { return &hoard{client: netip.AddrFrom4([4]byte{192, 0, 2, host})} }

func (s *hoard) set(h *Holdings, bytes int) { h.Set(s, &s.holding, s.client, bytes) }

// TestHoldingsAddUp changes the accounts of sessions at random. The sums are right after each change, each session is
// at its place, and no address is before one that holds more.
func TestHoldingsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := &Holdings{Shared: new(Holders)}
	var sessions []*hoard
	for i := range 60 {
		sessions = append(sessions, hoardOf(byte(i%20)))
	}
	for range 20_000 {
		sessions[random.IntN(len(sessions))].set(h, max(0, random.IntN(8*leastHolding)-2*leastHolding))
		total, byAddress := 0, make(map[netip.Prefix]int)
		for _, s := range sessions {
			own := &s.holding
			total += own.Bytes()
			if own.of == nil {
				continue
			}
			byAddress[own.of.address] += own.Bytes()
			if own.of.sessions[own.at].owner != s {
				t.Fatal("a session is not at its place")
			}
		}
		if total != h.total || len(byAddress) != len(h.addresses) || len(byAddress) != len(h.largest) {
			t.Fatalf("%d bytes of %d addresses, counted as %d of %d", total, len(byAddress), h.total, len(h.addresses))
		}
		for at, of := range h.largest {
			if of.bytes != byAddress[of.address] || of.at != at || of.bytes > h.largest[(at-min(at, 1))/2].bytes {
				t.Fatalf("%v holds %d bytes, counted as %d", of.address, byAddress[of.address], of.bytes)
			}
		}
	}
}

// TestHoldersShareAnAddress has sessions of one address on many loops, and one of another address. The first address
// has its bound once, and not on each loop. It is counted until it holds nothing on any loop.
func TestHoldersShareAnAddress(t *testing.T) {
	const loops, each, bound = 8, 10 << 10, 32 << 10
	shared := new(Holders)
	accounts, sessions := make([]*Holdings, loops), make([]*hoard, loops)
	exceeded := 0
	for i := range accounts {
		h := &Holdings{Bounds: HeldBounds{Address: bound}, Shared: shared}
		accounts[i], sessions[i] = h, hoardOf(1)
		sessions[i].set(h, each)
		other := hoardOf(2)
		other.set(h, 3<<10)
		if victim, _ := h.Excess(other, &other.holding); victim != nil {
			t.Errorf("loop %d: another address has to give way", i)
		}
		if victim, why := h.Excess(sessions[i], &sessions[i].holding); victim != nil {
			exceeded++
			if victim != sessions[i] || why != errHeldAddress {
				t.Errorf("loop %d: %v has to give way: %v", i, victim, why)
			}
			sessions[i].set(h, 0)
		}
		other.set(h, 0)
		if most := h.Figures().Address; most > bound+each {
			t.Errorf("loop %d: one address holds %d bytes", i, most)
		}
	}
	if want := loops - bound/each; exceeded != want {
		t.Errorf("%d sessions have to give way, want %d", exceeded, want)
	}
	for i, h := range accounts {
		sessions[i].set(h, 0)
	}
	if n := len(shared.addresses); n != 0 {
		t.Errorf("%d addresses are counted at the end", n)
	}
}
