package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/protocols"
)

var goodSecret = strings.Repeat("0f", 32)

// TestFilesBesideTheConfiguration names every secret's file by a relative path, which starts at the configuration's
// folder and not at the working folder.
func TestFilesBesideTheConfiguration(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"secret": goodSecret, "token": strings.Repeat("t", 20)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Replace(withCookies, "#bedrock", `cookie_mode = "active"`+"\n"+`cookie_secret = "file:secret"`, 1)
	text = strings.Replace(text, "#upstream", `cookie_mode = "offloaded_psk"`+"\n"+`cookie_secret = "file:secret"`, 1)
	text += "[admin]\ntoken = \"file:token\"\n"
	c, _, err := Parse(filepath.Join(folder, "tidegate.toml"), []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	if c.Admin.Token != Secret(strings.Repeat("t", 20)) || c.Upstreams[0].CookieSecret != Key(goodSecret) ||
		c.Options["raknet"].(*protocols.RakNetSettings).CookieSecret != Key(goodSecret) {
		t.Errorf("token %q, secrets %q and %q", string(c.Admin.Token), string(c.Upstreams[0].CookieSecret),
			string(c.Options["raknet"].(*protocols.RakNetSettings).CookieSecret))
	}
}

func TestCookies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(goodSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what          string
		listener, up  string // keys of [raknet] and [[upstream]]
		fault, warned string // parts of them; empty: none
	}{
		{"as it is", "", "", "", ""},
		{"active", `cookie_mode = "active"` + "\n" + `cookie_secret = "` + goodSecret + `"`, "", "", ""},
		{"from a file", `cookie_mode = "offloaded_psk"` + "\n" + `cookie_secret = "file:` + file + `"`, "", "", ""},
		{"offloaded", `cookie_mode = "offloaded"`, `cookie_mode = "offloaded"`, "", ""},
		{"no secret", `cookie_mode = "active"`, "", `raknet.cookie_secret: want 64 hexadecimal digits`, ""},
		{"a short secret", `cookie_mode = "active"` + "\n" + `cookie_secret = "0f"`, "",
			`raknet.cookie_secret = "(hidden)": want 64 hexadecimal digits`, ""},
		{"no digits", "", `cookie_mode = "offloaded_psk"` + "\n" + `cookie_secret = "` + strings.Repeat("x", 64) + `"`,
			`upstream[0].cookie_secret = "(hidden)": want 64`, ""},
		{"no such file", "", `cookie_mode = "offloaded_psk"` + "\n" + `cookie_secret = "file:` + file + `.not"`,
			"no such file", ""},
		{"a secret for nothing", `cookie_secret = "` + goodSecret + `"`, "", "", `cookie_mode = "private" does not use it`},
		{"none", `cookie_mode = "none"`, "", "", ""},
		{"the former key", "cookies = false", "", `raknet.cookies = false: want this key removed: cookie_mode = "none"`, ""},
		{"no cookies of a server", "", `cookie_mode = "none"`, `upstream[0].cookie_mode = "none": want "active"`, ""},
		{"private ones of a server", "", `cookie_mode = "private"`,
			`upstream[0].cookie_mode = "private": want "active": the server gives its own cookies`, ""},
	} {
		text := strings.Replace(withCookies, "#bedrock", c.listener, 1)
		found, warnings, err := Parse("t.toml", []byte(strings.Replace(text, "#upstream", c.up, 1)), known)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), strings.Repeat("0f", 2)) {
				t.Errorf("%s: faults %v, want one with %s, and no secret", c.what, err, c.fault)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got := Faults(warnings).Error(); (c.warned == "") != (len(warnings) == 0) || !strings.Contains(got, c.warned) {
			t.Errorf("%s: warnings %q, want one with %q", c.what, got, c.warned)
		}
		secret := found.Options["raknet"].(*protocols.RakNetSettings).CookieSecret
		if secret != "" && secret.Bytes()[31] != 0x0f {
			t.Errorf("%s: secret %x", c.what, secret.Bytes())
		}
	}
}

const withCookies = `
[[listener]]
name = "public"
address = "127.0.0.1:7777"
protocols = ["bedrock"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
[[upstream]]
name = "arena"
protocol = "bedrock"
servers = ["127.0.0.1:19132"]
#upstream
[raknet]
#bedrock
`

// TestCookiesAreRakNets checks that only RakNet has cookies to offload.
func TestCookiesAreRakNets(t *testing.T) {
	text := strings.Replace(withCookies, `protocol = "bedrock"`, `protocol = "rudp"`, 1)
	_, _, err := Parse("t.toml", []byte(strings.Replace(text, "#upstream", `cookie_mode = "offloaded"`, 1)), known)
	if err == nil || !strings.Contains(err.Error(), `cookie_mode = "offloaded": want "active": rudp has no cookies`) {
		t.Errorf("faults %v", err)
	}
}
