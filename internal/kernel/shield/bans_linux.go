package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// noPrealloc is BPF_F_NO_PREALLOC: memory for what is in the map only. A trie is not made without it.
const noPrealloc = 1

// prefixKey is a prefix as the trie knows it: length in bits, in the machine's order, and an IPv4-mapped address.
type prefixKey [20]byte

// bans are a trie for each family: a prefix of IPv6 that has the IPv4-mapped addresses in it bans none of IPv4.
type bans struct{ ipv4, ipv6 *ebpf.Map }

// newBans makes tries that have room for the most prefixes each, and take memory for those that are there.
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

// SetBans replaces the banned prefixes. It changes what differs, so that those banned before and after are never let
// in between. It returns how many had no room beyond Options.Bans: these are for user space to drop.
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

// plain is a prefix with nothing in its host part, of IPv4 if it is of addresses that are mapped to that.
func plain(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p.Masked()
}

// mappedBits is how much longer an IPv4 prefix is when it is mapped into IPv6.
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
