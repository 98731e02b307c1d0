package filter

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/cidr"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/testkit/geofile"
	"tidegate/ratelimit"
)

func listOf(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func database(t testing.TB, file []byte) *Database {
	t.Helper()
	d, err := NewDatabase(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// world is a Set with a rule of each kind.
func world(t testing.TB) *Set {
	t.Helper()
	s, err := New(Rules{
		Sources: []Source{
			{Name: "seen", Prefixes: listOf("0.0.0.0/0"), Verdict: ratelimit.Observe},
			{Name: "office", Prefixes: listOf("192.0.2.0/24", "2001:db8:1::/48"), Verdict: ratelimit.Pass},
			{Name: "crowd", Prefixes: listOf("192.0.0.0/16", "2001:db8::/32"), Verdict: ratelimit.Drop},
			{Name: "abroad", Countries: []string{"XA", "XB"}, Verdict: ratelimit.Drop},
			{Name: "hosting", Networks: []uint32{64500}, Verdict: ratelimit.Drop},
			{Name: "late", Prefixes: listOf("203.0.113.7/32"), Verdict: ratelimit.Observe},
			{Name: "staff", Listeners: []string{"staff"}, Prefixes: listOf("0.0.0.0/0", "::/0"), Verdict: ratelimit.Drop},
		},
		Countries: database(t, geofile.Countries(t, map[string]string{
			"198.51.100.0/24": "XA", "203.0.113.0/24": "XC", "2001:db8:f::/48": "XB", "2001:4860::/32": "XB",
		})),
		Networks: database(t, geofile.Networks(t, map[string]geofile.Network{
			"203.0.113.128/25": {Number: 64500, Holder: "Example Hosting"},
		})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSource(t *testing.T) {
	s := world(t)
	for _, test := range []struct{ listener, from, rule, observed string }{
		{"public", "192.0.2.9", "office", "seen"},
		{"public", "::ffff:192.0.2.9", "office", "seen"},
		{"public", "192.0.3.9", "crowd", "seen"},
		{"public", "2001:db8:1::5", "office", ""},
		{"public", "2001:db8:2::5", "crowd", ""},
		{"public", "2001:4860::1%eth0", "abroad", ""},
		{"public", "198.51.100.1", "abroad", "seen"},
		{"public", "203.0.113.200", "hosting", "seen"},
		{"public", "203.0.113.7", "", "seen late"},
		{"staff", "203.0.113.7", "staff", "seen late"},
		{"public", "8.8.8.8", "", "seen"},
		{"public", "2a00::1", "", ""},
		{"staff", "2a00::1", "staff", ""},
		{"staff", "192.0.2.1", "office", "seen"},
	} {
		match := s.Source(test.listener, netip.MustParseAddr(test.from))
		rule := ""
		if match.Rule >= 0 {
			rule = s.SourceNames()[match.Rule]
		}
		var observed []string
		for i := range match.Observed.All {
			observed = append(observed, s.SourceNames()[i])
		}
		if rule != test.rule || strings.Join(observed, " ") != test.observed {
			t.Errorf("%s at %s: rule %q after %q, want %q after %q",
				test.from, test.listener, rule, observed, test.rule, test.observed)
		}
		if want := map[string]ratelimit.Verdict{"": ratelimit.Pass, "office": ratelimit.Pass}; match.Verdict != want[rule] &&
			match.Verdict != ratelimit.Drop {
			t.Errorf("%s at %s: verdict %s", test.from, test.listener, match.Verdict)
		}
	}
}

func TestPlace(t *testing.T) {
	s := world(t)
	if got, want := s.Place(netip.MustParseAddr("203.0.113.200")), (Place{"XC", 64500, "Example Hosting"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.Place(netip.MustParseAddr("10.0.0.1")); got != (Place{}) {
		t.Errorf("%+v of an address in no database", got)
	}
	if got := (*Set)(nil).Place(netip.MustParseAddr("10.0.0.1")); got != (Place{}) {
		t.Errorf("%+v without databases", got)
	}
}

// TestNestedPrefixes compares lookups with a linear search, for prefixes of every length around one address.
func TestNestedPrefixes(t *testing.T) {
	var rules []Source
	addr := netip.MustParseAddr("172.16.99.131")
	for i := range 33 {
		p, err := addr.Prefix((i * 7) % 33) // in no particular order
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, Source{Name: p.String(), Prefixes: []netip.Prefix{p}, Verdict: ratelimit.Observe})
	}
	s, err := New(Rules{Sources: rules})
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 33 {
		other := addr.As4()
		if bit < 32 {
			other[bit/8] ^= 0x80 >> (bit % 8)
		}
		from := netip.AddrFrom4(other)
		var want Mask
		for i := range rules {
			if rules[i].Prefixes[0].Contains(from) {
				want |= 1 << i
			}
		}
		if got := s.Source("", from); got.Observed != want || got.Rule != -1 {
			t.Errorf("%s: rules %b, want %b", from, got.Observed, want)
		}
	}
}

func TestWithoutRulesAllPass(t *testing.T) {
	empty, err := New(Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Set{nil, empty} {
		if got := s.Source("x", netip.MustParseAddr("192.0.2.1")); got != noMatch {
			t.Errorf("%+v", got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for want, rules := range map[string]Rules{
		"at most 64":                     {Sources: make([]Source, MaxRules+1)},
		"at most 64 rules":               {Messages: make([]Message, MaxRules+1)},
		"rule x: no database of countri": {Sources: []Source{{}, {Name: "x", Countries: []string{"DE"}}}},
		"rule y: no database of network": {Sources: []Source{{}, {Name: "y", Networks: []uint32{1}}}},
	} {
		if _, err := New(rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := New(Rules{Sources: make([]Source, MaxRules), Messages: make([]Message, MaxRules)}); err != nil {
		t.Error(err)
	}
}

func TestNewDatabaseRefusesWhatIsNone(t *testing.T) {
	whole := geofile.Countries(t, map[string]string{"192.0.2.0/24": "XA"})
	for _, file := range [][]byte{nil, []byte("# a list\n192.0.2.1\n"), slices.Clone(whole[:len(whole)/2])} {
		if _, err := NewDatabase(file); err == nil {
			t.Errorf("%d bytes that are no database are taken for one", len(file))
		}
	}
}

func TestSourceDoesNotAllocate(t *testing.T) {
	s := world(t)
	from := []netip.Addr{
		netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("203.0.113.200"), netip.MustParseAddr("2001:db8:f::1"),
	}
	i := 0
	if n := allocs.PerRun(1000, func() { i++; s.Source("public", from[i%len(from)]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSource(b *testing.B) {
	s := world(b)
	for _, test := range []struct{ name, from string }{
		{"listed", "192.0.2.9"}, {"unlisted", "203.0.113.7"},
	} {
		from := netip.MustParseAddr(test.from)
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Source("public", from)
			}
		})
	}
}

// FuzzSource compares a Set's answer with a linear search through its prefixes.
func FuzzSource(f *testing.F) {
	f.Add([]byte("192.0.2.0/24\n192.0.0.0/16\n192.0.2.9"), "192.0.2.9")
	f.Fuzz(func(t *testing.T, text []byte, from string) {
		list, err := cidr.Read(bytes.NewReader(text))
		addr, errAddr := netip.ParseAddr(from)
		if err != nil || errAddr != nil || len(list) > MaxRules {
			return
		}
		var rules Rules
		var want Match
		want.Rule = -1
		for i, p := range list {
			rules.Sources = append(rules.Sources, Source{Prefixes: []netip.Prefix{p}})
			if want.Rule < 0 && p.Contains(addr.Unmap().WithZone("")) {
				want.Rule = i
			}
		}
		s, err := New(rules)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Source("", addr); got != want {
			t.Fatalf("%s in %v: %+v, want %+v", addr, list, got, want)
		}
	})
}
