package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// noPrealloc is BPF_F_NO_PREALLOC: allocate memory for existing entries only. A trie requires it.
const noPrealloc = 1

// prefixKey is a prefix as the trie stores it: length in bits, in the machine's order, then an IPv4-mapped address.
type prefixKey [20]byte

// bans has one trie per family, so that an IPv6 prefix that covers the IPv4-mapped addresses bans no IPv4 client.
type bans struct{ ipv4, ipv6 *ebpf.Map }

// newBans creates tries with room for the given number of prefixes each. They allocate memory per entry.
func newBans(most int) (b bans, err error) {
	for _, trie := range []**ebpf.Map{&b.ipv4, &b.ipv6} {
		*trie, err = ebpf.NewMap(&ebpf.MapSpec{
			Name: "tidegate_bans", Type: ebpf.LPMTrie, KeySize: uint32(len(prefixKey{})), ValueSize: 1,
			MaxEntries: uint32(max(most, 1)), Flags: noPrealloc,
		})
		if err != nil {
			return b, fmt.Errorf("map of bans: %w", err)
		}
	}
	return b, nil
}

func (b *bans) of(p netip.Prefix) *ebpf.Map {
	if p.Addr().Is4() {
		return b.ipv4
	}
	return b.ipv6
}

func (b *bans) close() error { return errors.Join(b.ipv4.Close(), b.ipv6.Close()) }

// SetBans replaces the banned prefixes. It changes only the difference, so that a prefix banned before and after is
// never let in. It returns the number of prefixes beyond Options.Bans, which user space must drop.
func (s *Shield) SetBans(prefixes []netip.Prefix) (left int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := make(map[netip.Prefix]struct{}, len(prefixes))
	for _, p := range prefixes {
		want[plain(p)] = struct{}{}
	}
	for p := range s.banned {
		if _, stays := want[p]; stays {
			continue
		}
		if err := s.bans.of(p).Delete(keyOf(p)); err != nil {
			return 0, fmt.Errorf("lift the ban of %s: %w", p, err)
		}
		delete(s.banned, p)
	}
	for p := range want {
		if _, has := s.banned[p]; has {
			continue
		}
		if len(s.banned) >= max(s.options.Bans, 1) {
			left++
			continue
		}
		if err := s.bans.of(p).Put(keyOf(p), byte(1)); err != nil {
			return 0, fmt.Errorf("ban %s: %w", p, err)
		}
		s.banned[p] = struct{}{}
	}
	return left, nil
}

// plain returns a prefix with a zero host part. An IPv4-mapped prefix becomes IPv4.
func plain(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p.Masked()
}

// mappedBits is the extra length of an IPv4 prefix when mapped into IPv6.
const mappedBits = 96

func keyOf(p netip.Prefix) (k prefixKey) {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += mappedBits
	}
	binary.NativeEndian.PutUint32(k[:], uint32(bits))
	addr := p.Addr().As16()
	copy(k[4:], addr[:])
	return k
}
