package cidr

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
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
		p, err := Parse(text)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"": "[] <nil>",

		"# all of it\n\n 192.0.2.0/24 # office\r\n2001:db8::1;\n;\n": "[192.0.2.0/24 2001:db8::1/128] <nil>",

		"x\n192.0.2.1\ny # why\n": `[] line 1: "x" is neither an address nor a prefix` + "\n" +
			`line 3: "y" is neither an address nor a prefix`,
		"192.0.2.1\n192.0.2.x\n": `[] line 2: "192.0.2.x" is neither an address nor a prefix`,

		"192.0.2.1\n" + strings.Repeat("1", maxLine+1): "[] line 2: bufio.Scanner: token too long",
		strings.Repeat("192.0.2.1\n", MaxList) + "::":  "[] line 1000001: more than 1000000 prefixes",
	} {
		list, err := Read(strings.NewReader(text))
		if got := fmt.Sprint(list, err); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("# list\n192.0.2.0/24\n2001:db8::/32 ; comment\r\n"))
	f.Add([]byte("::ffff:192.0.2.0/120\n1.2.3.4"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Read(bytes.NewReader(text))
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
		second, err := Read(strings.NewReader(again.String()))
		if err != nil || fmt.Sprint(second) != fmt.Sprint(list) {
			t.Fatalf("%v becomes %v, %v", list, second, err)
		}
	})
}
