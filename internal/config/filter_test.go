package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// with returns the valid file with more text at its end, from line 16.
func with(more string) []byte { return []byte(valid + "\n" + more) }

func TestAccessRules(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"a", "c", "n"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	geo := "[geo]\ncountry_file = \"c\"\nnetwork_file = \"n\"\n"
	for _, row := range []struct{ name, more, want string }{
		{"good", geo + "[[access]]\nname = \"x\"\nverdict = \"drop\"\nlisteners = [\"public\"]\n" +
			"prefixes = [\"192.0.2.0/24\", \"::1\"]\nfiles = [\"a\"]\ncountries = [\"DE\"]\nnetworks = [1, 4294967295]", ""},
		{"nothing said", "[[access]]", `
t.toml:16:3: access[0].name: want a name of 1 to 64 letters, digits, - and _
t.toml:16:3: access[0].verdict: want "allow", "observe" or "drop"
t.toml:16:3: access[0].prefixes: want at least one of prefixes, files, countries and networks; ["0.0.0.0/0",
    "::/0"] matches every address`},
		{"verdict for messages", "[[access]]\nname = \"x\"\nverdict = \"ban\"\nprefixes = [\"::/0\"]",
			`t.toml:18:11: access[0].verdict = "ban": want "allow", "observe" or "drop"`},
		{"no prefix", "[[access]]\nname = \"x\"\nverdict = \"drop\"\nprefixes = [\"::1\", \"example.com\", \"10.0.0.1/8\"]", `
t.toml:19:20: access[0].prefixes[1] = "example.com": want a prefix, for example "192.0.2.0/24", or an address
t.toml:19:35: access[0].prefixes[2] = "10.0.0.1/8": want no bits set beyond the prefix's length: "10.0.0.0/8", or
    another length`},
		{"names", "[[access]]\nname = \"x\"\nverdict = \"drop\"\nprefixes = [\"::1\"]\nlisteners = [\"moon\"]\n" +
			"[[access]]\nname = \"x\"\nverdict = \"drop\"\nfiles = [\"\"]", `
t.toml:20:14: access[0].listeners[0] = "moon": want the name of one of the [[listener]] tables: "public"
t.toml:22:8: access[1].name = "x": want a name of its own; access[0] on line 16 has it already
t.toml:24:10: access[1].files[0] = "": want the path of a file with a prefix on each line`},
		{"places without databases",
			"[[access]]\nname = \"x\"\nverdict = \"drop\"\ncountries = [\"de\", \"DEU\", \"XX\", \"DE\"]\nnetworks = [0]", `
t.toml:1:1: geo.country_file: want the path of a MaxMind database of countries; access[0] on line 16 needs it
t.toml:1:1: geo.network_file: want the path of a MaxMind database of networks (ASN); access[0] on line 16 needs it
t.toml:19:14: access[0].countries[0] = "de": want a country's code of two capital letters, as "DE" (ISO 3166)
t.toml:19:20: access[0].countries[1] = "DEU": want a country's code of two capital letters, as "DE" (ISO 3166)
t.toml:19:27: access[0].countries[2] = "XX": want a country's code of two capital letters, as "DE" (ISO 3166)
t.toml:20:13: access[0].networks[0] = 0: want 1 to 4294967295`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", with(row.more), known)
			check(t, err, row.want)
		})
	}
}

func TestFilterRules(t *testing.T) {
	rule := "[[filter]]\nname = \"x\"\n"
	for _, row := range []struct{ name, more, want string }{
		{"good", rule + "verdict = \"ban\"\nfrom = \"client\"\nprotocols = [\"raknet\"]\nids = [\"7\", \"100-0xffff\"]\n" +
			"packets = [\"0x86\"]\nmin_size = \"1B\"\nmax_size = \"64MiB\"\nmodes = [\"notify\"]\nrate = 10", ""},
		{"no verdict", rule, `t.toml:16:3: filter[0].verdict: want "allow", "observe", "drop", "disconnect" or "ban"`},
		{"servers' messages do not ban", rule + "verdict = \"ban\"",
			`t.toml:18:11: filter[0].verdict = "ban": want another verdict, or from = "client": players are not ` +
				`responsible for messages from servers`},
		{"numbers", rule + "verdict = \"drop\"\nids = [\"7-3\", \"65536\", \"x\"]\npackets = [\"0-255\", \"256\"]", `
t.toml:19:8: filter[0].ids[0] = "7-3": want a number from 0 to 65535 or a range in quotes, for example "7",
    "100-199" or "0x86"
t.toml:19:15: filter[0].ids[1] = "65536": want a number from 0 to 65535 or a range in quotes, for example "7",
    "100-199" or "0x86"
t.toml:19:24: filter[0].ids[2] = "x": want a number from 0 to 65535 or a range in quotes, for example "7",
    "100-199" or "0x86"
t.toml:20:21: filter[0].packets[1] = "256": want bytes: 0 to 255`},
		{"sizes and rates",
			rule + "verdict = \"drop\"\nmin_size = \"9B\"\nmax_size = \"8B\"\nrate = 1000001\nper = \"2h\"", `
t.toml:20:12: filter[0].max_size = "8B": want "0B", for no bound, or at least min_size, which is 9B
t.toml:21:8: filter[0].rate = 1000001: want 0 to 1000000
t.toml:22:7: filter[0].per = "2h": want "1ms" to "1h"`},
		{"words", rule + "verdict = \"drop\"\nfrom = \"me\"\nprotocols = [\"any\"]\nmodes = [\"fast\"]", `
t.toml:19:8: filter[0].from = "me": want "any", "client" or "upstream"
t.toml:20:14: filter[0].protocols[0] = "any": want "bedrock", "deaf", "lossy", "mute", "raknet", "riptide-2.0",
    "riptide-2.2", "rtype" or "rudp"
t.toml:21:10: filter[0].modes[0] = "fast": want "unreliable", "unreliable-sequenced", "reliable",
    "reliable-ordered", "reliable-sequenced" or "notify"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", with(row.more), known)
			check(t, err, row.want)
		})
	}
}

func TestRuleThatStopsEverythingIsWarnedOf(t *testing.T) {
	for verdict, want := range map[string]string{
		"drop": `t.toml:18:11: filter[0].verdict = "drop": want a condition, such as ids or rate: this rule matches ` +
			`every message`,
		"observe": "",
	} {
		_, warnings, err := Parse("t.toml", with("[[filter]]\nname = \"x\"\nverdict = \""+verdict+"\""), known)
		if err != nil {
			t.Fatal(err)
		}
		if got := Faults(warnings).Error(); got != want {
			t.Errorf("%s: %s, want %s", verdict, got, want)
		}
	}
}

// TestRulesAreBounded checks the bound on rules, each of which is a bit of a mask.
func TestRulesAreBounded(t *testing.T) {
	var access, filters strings.Builder
	for i := range maxRules + 1 {
		fmt.Fprintf(&access, "[[access]]\nname = \"a%d\"\nverdict = \"drop\"\nprefixes = [\"::1\"]\n", i)
		fmt.Fprintf(&filters, "[[filter]]\nname = \"f%d\"\nverdict = \"observe\"\n", i)
	}
	_, _, err := Parse("t.toml", with(access.String()+filters.String()), known)
	check(t, err, `
t.toml:272:3: access[64]: want at most 64 rules of a kind
t.toml:468:3: filter[64]: want at most 64 rules of a kind`)
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	c, _, err := Parse(filepath.Join("etc", "t.toml"), []byte(valid), known)
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs("list")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"list": filepath.Join("etc", "list"), absolute: absolute, "": ""} {
		if got := c.Path(file); got != want {
			t.Errorf("%q is %q, want %q", file, got, want)
		}
	}
}

func FuzzRange(f *testing.F) {
	f.Add("100-199")
	f.Add("0x86")
	f.Fuzz(func(t *testing.T, text string) {
		var r, again Range
		if r.UnmarshalText([]byte(text)) != nil {
			return
		}
		low, high := r.Bounds()
		if again.UnmarshalText(fmt.Appendf(nil, "%d-%d", low, high)) != nil || low > high {
			t.Fatalf("%q is %d to %d", text, low, high)
		}
		if a, b := again.Bounds(); a != low || b != high {
			t.Fatalf("%q is %d to %d, and then %d to %d", text, low, high, a, b)
		}
	})
}

// TestRulesAboutRelayedMessagesAreWarnedOf checks rules that name the listener, and rules for all listeners.
func TestRulesAboutRelayedMessagesAreWarnedOf(t *testing.T) {
	relayed := strings.Replace(valid, `name = "arena"`, "name = \"arena\"\nmode = \"relay\"", 1)
	rule := "\n[[filter]]\nname = \"x\"\nverdict = \"drop\"\nids = [\"7\"]\n"
	const want = `want listeners of routes with mode = "terminate": a relay sees no messages, so this rule has no ` +
		`effect on "public"`
	for _, row := range []struct {
		name, file, warning string
	}{
		{"terminated", valid + rule, ""},
		{"of all listeners", relayed + rule, "t.toml:17:3: filter[0].listeners: " + want},
		{"by name", relayed + rule + "listeners = [\"public\"]", `t.toml:21:13: filter[0].listeners = ["public"]: ` + want},
	} {
		_, warnings, err := Parse("t.toml", []byte(row.file), known)
		if err != nil {
			t.Fatal(err)
		}
		if got := Faults(warnings).Error(); got != row.warning {
			t.Errorf("%s:\n%s\nwant\n%s", row.name, got, row.warning)
		}
	}
}
