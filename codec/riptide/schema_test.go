package riptide

import (
	"fmt"
	"strings"
	"testing"
)

func mustSchema(t testing.TB, names ...string) Schema {
	t.Helper()
	s, err := ParseSchema(names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseSchemaNames(t *testing.T) {
	names := []string{"bits:1", "bits:64", "bits:7[]", "bits:7[2]"}
	for _, e := range elements {
		names = append(names, e.name, e.name+"[]", e.name+"[1]", e.name+"[32767]")
	}
	for i, parsed := range mustSchema(t, names...) {
		if parsed.String() != names[i] {
			t.Errorf("%s: read as %s", names[i], parsed)
		}
	}
	if s, err := ParseSchema(nil); err != nil || len(s) != 0 {
		t.Errorf("a message without values: %v, %v", s, err)
	}
}

func TestParseSchemaFaults(t *testing.T) {
	const all = `want byte, sbyte, bool, short, ushort, int, uint, long, ulong, float, double, string, vector2, ` +
		`vector3, quaternion, varulong, varlong or bits:N, and [] or [N] behind it for an array`
	for _, c := range []struct{ name, want string }{
		{"flaot", `"flaot": ` + all},
		{"", `"": ` + all},
		{"Int", `"Int": ` + all},
		{"int[][]", `"int[][]": want [] or a number of elements from 1 to 32767, for example [3]`},
		{"int]", `"int]": want a [ before the ]`},
		{"int[", `"int[": ` + all},
		{"int[0]", `"int[0]": want [] or a number of elements from 1 to 32767, for example [3]`},
		{"int[32768]", `"int[32768]": want [] or a number of elements from 1 to 32767, for example [3]`},
		{"int[+3]", `"int[+3]": want [] or a number of elements from 1 to 32767, for example [3]`},
		{"bits:0", `"bits:0": want a number of bits from 1 to 64, for example bits:3`},
		{"bits:65", `"bits:65": want a number of bits from 1 to 64, for example bits:3`},
		{"bits:", `"bits:": want a number of bits from 1 to 64, for example bits:3`},
	} {
		_, err := ParseSchema([]string{"int", c.name})
		if got, want := fmt.Sprint(err), "type 2: "+c.want; got != want {
			t.Errorf("%q:\n%s, want\n%s", c.name, got, want)
		}
	}
	_, err := ParseSchema([]string{"in", "int", "bits:x"})
	if got := fmt.Sprint(err); !strings.HasPrefix(got, `type 1: "in"`) || !strings.Contains(got, "\n"+`type 3: "bits:x"`) {
		t.Errorf("not every fault: %s", got)
	}
}

func TestSchemaCheck(t *testing.T) {
	s := mustSchema(t, "int", "varulong", "string[]", "bits:3[2]", "varlong[]", "quaternion")
	if err := s.Check(V22); err != nil {
		t.Error(err)
	}
	const want = "type 2: varulong: not in riptide-2.0\ntype 4: bits:3[2]: not in riptide-2.0\n" +
		"type 5: varlong[]: not in riptide-2.0"
	if got := fmt.Sprint(s.Check(V20)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if err := mustSchema(t, "int", "bool[]").Check(V20); err != nil {
		t.Error(err)
	}
}
