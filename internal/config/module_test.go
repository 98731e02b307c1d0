package config

import (
	"errors"
	"strings"
	"testing"
)

// TestModuleFaults reports all faults of a route's modules at once, each with its remedy.
func TestModuleFaults(t *testing.T) {
	const whole = "[[route.module]]\nfile = \"x.wasm\"\non_failure = \"drop\"\n"
	for _, c := range []struct{ modules, want string }{
		{whole, ""},
		{"[[route.module]]", `
t.toml:14:3: route[0].module[0].file: want the path of a module in WebAssembly
t.toml:14:3: route[0].module[0].on_failure: want "drop" or "pass"`},
		{"[[route.module]]\nfile = 7\non_failure = \"hope\"\nmemory = \"1B\"\ntime = \"1m\"", `
t.toml:15:8: route[0].module[0].file = 7: want text in quotes
t.toml:16:14: route[0].module[0].on_failure = "hope": want "drop" or "pass"
t.toml:17:10: route[0].module[0].memory = "1B": want "64KiB" to "1GiB"
t.toml:18:8: route[0].module[0].time = "1m": want "1ms" to "1s"`},
		{whole + strings.Replace(whole, "x.wasm", "other/x.wat", 1), `
t.toml:18:8: route[0].module[1].file = "other/x.wat": want a name of its own; ` +
			`route[0].module[0] on line 14 has it already`},
		{strings.Repeat(whole, maxModules+1), `
t.toml:26:3: route[0].module[4]: want at most 4 modules`},
	} {
		_, _, err := Parse("t.toml", []byte(mapped+c.modules), mapTraits())
		got := ""
		if err != nil {
			got = "\n" + err.Error()
		}
		if got != c.want {
			t.Errorf("%s:%s\nwant:%s", c.modules, got, c.want)
		}
	}
	relays := strings.Replace(mapped, `"raknet"`, `"riptide-2.2"`, 1) + "mode = \"relay\"\n" + whole
	_, warnings, err := Parse("t.toml", []byte(relays), mapTraits())
	if err != nil {
		warnings = append(warnings, Fault{Want: err.Error()})
	}
	const want = "want no [[route.module]] table: a relay translates nothing"
	if text := (Faults)(warnings).Error(); !strings.Contains(text, want) {
		t.Error(text)
	}
}

// TestModuleFault has the place of a module that cannot be used.
func TestModuleFault(t *testing.T) {
	text := mapped + "[[route.module]]\nfile = \"x.wasm\"\non_failure = \"drop\"\n"
	c, _, err := Parse("t.toml", []byte(text), mapTraits())
	if err != nil {
		t.Fatal(err)
	}
	const want = `t.toml:15:8: route[0].module[0].file = "x.wasm": want a module that can be used: it is odd`
	if err := c.ModuleFault(0, 0, errors.New("it is odd")); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
