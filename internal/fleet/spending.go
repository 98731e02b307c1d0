package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// Bounds of a report of spending.
const (
	spendingForm = 1    // the version
	maxSpendings = 1024 // of one node
	spendingUnit = time.Microsecond
	spendingIPv4 = 2 + 4 + 4 // bytes of one
	spendingIPv6 = 2 + 16 + 4

	maxSpendReport = 1 + maxSpendings*spendingIPv6
)

// Parts of the first byte of a spending.
const (
	spendingOf   = 1<<4 - 1 // the quantity
	spendingNet  = 1 << 4   // of a network, else of an address
	spendingLate = 1 << 5
	spendingWide = 1 << 6 // IPv6
)

var errSpending = errors.New("a report of limits with a source, a limit or an amount that no node has")

// formatSpending returns what a node has used of limits, as other nodes read it:
//
//	1 byte   the version
//	then for each account:
//	1 byte   the quantity, the scope, the kind of proof and the family of addresses
//	1 byte   bits of the source
//	4 or 16  the source
//	4 bytes  microseconds that the limit's rate needs to pay for the amount
func formatSpending(all []ratelimit.Spending) []byte {
	b := append(make([]byte, 0, 1+len(all)*spendingIPv4), spendingForm)
	for _, s := range all[:min(len(all), maxSpendings)] {
		kind := byte(s.Of)
		if s.Per == ratelimit.PerNetwork {
			kind |= spendingNet
		}
		if s.Late {
			kind |= spendingLate
		}
		if s.Source.Addr().Is6() {
			kind |= spendingWide
		}
		b = append(b, kind, byte(s.Source.Bits()))
		b = append(b, s.Source.Addr().AsSlice()...)
		b = binary.BigEndian.AppendUint32(b, uint32(min(max(1, s.Used/spendingUnit), 1<<32-1)))
	}
	return b
}

// parseSpending reads what another node has used of limits. The node may be hostile: all parts are checked and bounded.
func parseSpending(b []byte) ([]ratelimit.Spending, error) {
	if len(b) == 0 || len(b) > maxSpendReport || b[0] != spendingForm {
		return nil, errSpending
	}
	var all []ratelimit.Spending
	seen := make(map[ratelimit.Account]struct{})
	for b = b[1:]; len(b) > 0; {
		s, n, err := parseOneSpending(b)
		if err != nil {
			return nil, err
		}
		if seen[s.Account] = struct{}{}; len(seen) > maxSpendings || len(seen) != len(all)+1 {
			return nil, fmt.Errorf("%w, or with one twice", errSpending)
		}
		all, b = append(all, s), b[n:]
	}
	return all, nil
}

// parseOneSpending reads the first spending, and returns its length.
func parseOneSpending(b []byte) (s ratelimit.Spending, n int, err error) {
	n = spendingIPv4
	if b[0]&spendingWide != 0 {
		n = spendingIPv6
	}
	if len(b) < n {
		return s, 0, errSpending
	}
	addr, _ := netip.AddrFromSlice(b[2 : n-4]) // of a right length
	s.Source = netip.PrefixFrom(addr, int(b[1]))
	s.Of, s.Per, s.Late = ratelimit.Quantity(b[0]&spendingOf), ratelimit.PerAddress, b[0]&spendingLate != 0
	if b[0]&spendingNet != 0 {
		s.Per = ratelimit.PerNetwork
	}
	s.Used = time.Duration(binary.BigEndian.Uint32(b[n-4:])) * spendingUnit
	switch of := source.Of(addr); {
	case b[0]&^(spendingOf|spendingNet|spendingLate|spendingWide) != 0,
		s.Of >= ratelimit.QueuedBytes, // it is no rate
		s.Late && s.Of != ratelimit.Handshakes,
		addr.Is4In6(), !s.Source.IsValid(), s.Source != s.Source.Masked(),
		s.Per == ratelimit.PerAddress && s.Source != of.Address(),
		s.Per == ratelimit.PerNetwork && s.Source != of.Network(),
		s.Used == 0:
		return s, 0, errSpending
	}
	return s, n, nil
}
