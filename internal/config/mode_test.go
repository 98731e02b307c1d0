package config

import (
	"strings"
	"testing"
)

// TestModes checks which protocols the routes of both modes may join.
func TestModes(t *testing.T) {
	for _, row := range []struct{ client, upstream, route, faulty string }{
		{`"raknet"`, "raknet", `mode = "terminate"`, ""},
		{`"raknet"`, "raknet", `mode = "relay"`, ""},
		{`"raknet"`, "any", `mode = "relay"`, ""},
		{`"any"`, "raknet", `mode = "relay"`, ""},
		{`"raknet", "any"`, "any", `mode = "relay"`, ""},
		{`"raknet"`, "riptide-2.2", `mode = "relay"`, "listener[0].protocols[0]"},
		{`"raknet", "bedrock"`, "raknet", `mode = "relay"`, "listener[0].protocols[1]"},
		{`"any"`, "raknet", ``, "listener[0].protocols[0]"},
		{`"raknet"`, "any", ``, "upstream[0].protocol"},
		{`"raknet"`, "any", `mode = "pass"`, "route[0].mode"},
		{`"raknet"`, "raknet", "mode = \"relay\"\npong = \"upstream\"", ""},
		{`"raknet"`, "any", "mode = \"relay\"\npong = \"upstream\"", ""},
		{`"raknet"`, "any", "mode = \"relay\"\npong = \"configured\"", ""},
	} {
		_, _, err := Parse("t.toml", modeText(t, row.client, row.upstream, row.route), known)
		faulty := ""
		if faults, ok := err.(Faults); ok {
			faulty = faults[0].Key
		}
		if faulty != row.faulty {
			t.Errorf("%s to %s, %q: fault at %q, want %q: %v", row.client, row.upstream, row.route, faulty, row.faulty, err)
		}
	}
}

// modeText returns the valid file with other protocols, and one more line in its route.
func modeText(t *testing.T, client, upstream, route string) []byte {
	text := string(change(t, `["raknet"]`, `[`+client+`]`))
	text = strings.Replace(text, `protocol = "raknet"`, `protocol = "`+upstream+`"`, 1)
	return []byte(strings.Replace(text, "[[route]]\n", "[[route]]\n"+route+"\n", 1))
}

func TestRelayIsOfDatagrams(t *testing.T) {
	text := string(modeText(t, `"riptide-2.2"`, "riptide-2.2", `mode = "relay"`))
	text = strings.Replace(text, "[[upstream]]\n", "[[upstream]]\ntransport = \"tcp\"\n", 1)
	_, _, err := Parse("t.toml", []byte(text), known)
	check(t, err, `t.toml:8:8: route[0].mode = "relay": want "terminate", or transport = "udp" for upstream[0] on line 12`)

	text = strings.Replace(text, "transport = \"tcp\"\n", "", 1)
	text = strings.Replace(text, "[[listener]]\n", "[[listener]]\ntransport = \"tcp\"\n", 1)
	_, _, err = Parse("t.toml", []byte(text), known)
	check(t, err, `t.toml:9:8: route[0].mode = "relay": want "terminate", or transport = "udp" for listener[0] on line 1`)

	text = string(modeText(t, `"raknet"`, "raknet", `mode = "relay"`))
	text = strings.Replace(text, "[[upstream]]\n", "[[route.message]]\nid = 1\ntypes = [\"int\"]\n[[upstream]]\n", 1)
	_, warnings, err := Parse("t.toml", []byte(text), known)
	check(t, err, "")
	check(t, Faults(warnings), `t.toml:12:3: route[0].message[0]: want no [[route.message]] table: a relay `+
		`translates nothing`)

	text = string(modeText(t, `"raknet"`, "raknet", `mode = "relay"`))
	text = strings.Replace(text, "[[upstream]]\n", "[[upstream]]\nserver_library = \"go-raknet\"\n", 1)
	_, warnings, err = Parse("t.toml", []byte(text), known)
	check(t, err, "")
	check(t, Faults(warnings), `t.toml:13:18: upstream[0].server_library = "go-raknet": want sources of a prefix, or `+
		`mode = "terminate": these servers block an address, and a relay's players share one`)
}
