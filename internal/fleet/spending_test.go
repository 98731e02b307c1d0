package fleet

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// usedBy returns the handshakes of an address.
func usedBy(a netip.Addr, used time.Duration) ratelimit.Spending {
	at := netip.PrefixFrom(a, a.BitLen())
	if !a.Is4In6() {
		at = source.Of(a).Address()
	}
	return ratelimit.Spending{Used: used, Account: ratelimit.Account{
		Source: at, Of: ratelimit.Handshakes, Per: ratelimit.PerAddress,
	}}
}

// someSpending has each kind of account.
func someSpending() []ratelimit.Spending {
	late := usedBy(address(1), time.Second)
	late.Late = true
	network := usedBy(address(1), time.Millisecond)
	network.Per, network.Of, network.Source = ratelimit.PerNetwork, ratelimit.Bytes, netip.MustParsePrefix("198.18.0.0/24")
	wide := usedBy(netip.MustParseAddr("2001:db8::1"), time.Microsecond)
	wide.Of = ratelimit.Packets
	wideNetwork := network
	wideNetwork.Of, wideNetwork.Source = ratelimit.ReliableMessages, netip.MustParsePrefix("2001:db8::/48")
	return []ratelimit.Spending{usedBy(address(1), time.Hour), late, network, wide, wideNetwork}
}

// TestSpendingThereAndBack writes and reads reports, also the largest one.
func TestSpendingThereAndBack(t *testing.T) {
	var large []ratelimit.Spending
	for i := range maxSpendings {
		a := netip.MustParseAddr("2001:db8::").As16()
		binary.BigEndian.PutUint16(a[6:], uint16(i))
		large = append(large, usedBy(netip.AddrFrom16(a), time.Minute))
	}
	for _, want := range [][]ratelimit.Spending{nil, someSpending(), large} {
		b := formatSpending(want)
		if got, err := parseSpending(b); err != nil || !reflect.DeepEqual(got, want) || len(b) > maxSpendReport {
			t.Errorf("%d bytes, %v: %v came back as %v", len(b), err, want, got)
		}
	}
	many := append(large, someSpending()...)
	if got, err := parseSpending(formatSpending(many)); err != nil || len(got) != maxSpendings {
		t.Errorf("too many: %d, %v", len(got), err)
	}
	tiny, huge := usedBy(address(1), 1), usedBy(address(2), 1000*time.Hour)
	if got, err := parseSpending(formatSpending([]ratelimit.Spending{tiny, huge})); err != nil ||
		got[0].Used != time.Microsecond || got[1].Used != (1<<32-1)*time.Microsecond {
		t.Errorf("%v, %v", got, err)
	}
}

// TestHostileSpending refuses reports that no node writes.
func TestHostileSpending(t *testing.T) {
	good := func() []byte { return formatSpending(someSpending()[:1]) }
	change := func(at int, to byte) []byte {
		b := good()
		b[at] = to
		return b
	}
	twice := append(good(), good()[1:]...)
	mapped := netip.MustParseAddr("::ffff:192.0.2.1")
	for name, b := range map[string][]byte{
		"nothing":               {},
		"another version":       change(0, 2),
		"cut":                   good()[:8],
		"a rest":                append(good(), 0),
		"a quantity of none":    change(1, spendingOf),
		"queued bytes":          change(1, byte(ratelimit.QueuedBytes)),
		"an unknown flag":       change(1, 1<<7|byte(ratelimit.Handshakes)),
		"late packets":          change(1, spendingLate|byte(ratelimit.Packets)),
		"more bits":             change(2, 33),
		"fewer bits":            change(2, 24),
		"an unmasked network":   append([]byte{1, spendingNet, 24}, 192, 0, 2, 1, 0, 0, 0, 1),
		"a mapped address":      formatSpending([]ratelimit.Spending{usedBy(mapped, 1)}),
		"nothing used":          append(good()[:7], 0, 0, 0, 0),
		"an account twice":      twice,
		"more than a report is": make([]byte, maxSpendReport+1),
	} {
		if got, err := parseSpending(b); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

// FuzzSpending reads any report. A valid one comes back the same, and its charges stay bounded.
func FuzzSpending(f *testing.F) {
	f.Add("ams1", formatSpending(someSpending()))
	f.Add("", []byte{1})
	f.Fuzz(func(t *testing.T, node string, report []byte) {
		all, err := parseSpending(report)
		if err != nil {
			return
		}
		if again, err := parseSpending(formatSpending(all)); err != nil || !reflect.DeepEqual(again, all) {
			t.Fatalf("%v came back as %v, %v", all, again, err)
		}
		for _, s := range all {
			if s.Used <= 0 || !s.Source.IsValid() || s.Of >= ratelimit.QueuedBytes {
				t.Fatalf("%+v", s)
			}
		}
		b := newBudgets(identity{}, 0, nil, func() int { return 2 })
		for range 3 {
			b.keep(node, all)
		}
		if b.accounts != len(all) {
			t.Fatalf("%d accounts of %d", b.accounts, len(all))
		}
	})
}
