package filter

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.0/24":          "192.0.2.0/24",
		"192.0.2.7":             "192.0.2.7/32",
		"0.0.0.0/0":             "0.0.0.0/0",
		"2001:db8::/32":         "2001:db8::/32",
		"2001:db8::1":           "2001:db8::1/128",
		"::ffff:192.0.2.0/120":  "192.0.2.0/24",
		"::ffff:192.0.2.7":      "192.0.2.7/32",
		"192.0.2.7/24":          `"192.0.2.7/24" has bits beyond its length; did you mean 192.0.2.0/24?`,
		"fe80::1%eth0":          `"fe80::1%eth0" has a zone`,
		"192.0.2.0/33":          `"192.0.2.0/33" is neither an address nor a prefix`,
		"example.com":           `"example.com" is neither an address nor a prefix`,
		"":                      `"" is neither an address nor a prefix`,
		"192.0.2.1-192.0.2.200": `"192.0.2.1-192.0.2.200" is neither an address nor a prefix`,
	} {
		p, err := ParsePrefix(text)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestReadPrefixes(t *testing.T) {
	for text, want := range map[string]string{
		"": "[] <nil>",
		"# all of it\n\n 192.0.2.0/24 # office\r\n2001:db8::1;\n;\n": "[192.0.2.0/24 2001:db8::1/128] <nil>",
		"192.0.2.1\n192.0.2.x\n":                                     `[] line 2: "192.0.2.x" is neither an address nor a prefix`,
		"192.0.2.1\n" + strings.Repeat("1", maxLine+1):               "[] line 2: bufio.Scanner: token too long",
		strings.Repeat("192.0.2.1\n", MaxPrefixes) + "::":            "[] line 1000001: more than 1000000 prefixes",
	} {
		list, err := ReadPrefixes(strings.NewReader(text))
		if got := fmt.Sprint(list, err); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string]string{
		"7": "7", "100-199": "100-199", "0x86": "134", "0x80-0xff": "128-255", "65535": "65535", "7-7": "7",
		"65536": "", "8-7": "", "": "", "-": "", "7-": "", "-7": "", "1-2-3": "", "+7": "", "0x": "", "1_0": "",
	} {
		r, err := ParseRange(text)
		if got := r.String(); err == nil && got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

func FuzzReadPrefixes(f *testing.F) {
	f.Add([]byte("# list\n192.0.2.0/24\n2001:db8::/32 ; comment\r\n"))
	f.Add([]byte("::ffff:192.0.2.0/120\n1.2.3.4"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ReadPrefixes(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again strings.Builder
		for _, p := range list {
			if p != p.Masked() || p.Addr().Is4In6() && p.Bits() >= 96 {
				t.Fatalf("%s is not in its plain form", p)
			}
			fmt.Fprintln(&again, p)
		}
		second, err := ReadPrefixes(strings.NewReader(again.String()))
		if err != nil || fmt.Sprint(second) != fmt.Sprint(list) {
			t.Fatalf("%v becomes %v, %v", list, second, err)
		}
	})
}

func FuzzParseRange(f *testing.F) {
	f.Add("100-199")
	f.Add("0x86")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRange(text)
		if err != nil {
			return
		}
		if again, err := ParseRange(r.String()); err != nil || again != r || r.Low > r.High {
			t.Fatalf("%q becomes %v, which becomes %v, %v", text, r, again, err)
		}
	})
}

// FuzzSource compares what a Set says of an address with what its prefixes say one by one.
func FuzzSource(f *testing.F) {
	f.Add([]byte("192.0.2.0/24\n192.0.0.0/16\n192.0.2.9"), "192.0.2.9")
	f.Fuzz(func(t *testing.T, text []byte, from string) {
		list, err := ReadPrefixes(bytes.NewReader(text))
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
