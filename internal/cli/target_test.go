package cli

import (
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/contexts"
)

func TestAdminAddress(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:9470": "127.0.0.1:9470", "http://[::1]:9470/": "[::1]:9470", "http://game.example:9470": "game.example:9470",
		"https://game.example": "https://game.example", "https://game.example:443/": "https://game.example:443",
		"unix:/run/a": "unix:/run/a", "unix:///run/a": "unix:/run/a", "auto": "auto",
	} {
		if got, err := adminAddress(text); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "https://", "https://u@a", "https://a/b", "https://a?b", "game.example", "unix:", "http://a:1/b", "9470", ":9470"} {
		if got, err := adminAddress(text); err == nil {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// TestTargetOrder finds the address and token of a command in the order of the help.
func TestTargetOrder(t *testing.T) {
	file := write(t, "[admin]\nlisten = \"127.0.0.1:1\"\ntoken = \"of-the-configuration\"\n")
	off := write(t, "[admin]\nlisten = \"off\"\n")
	t.Chdir(t.TempDir())
	if _, err := config.Find(); err == nil {
		t.Skip("this machine has a configuration of its own")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	must(t, contexts.Table{"eu1": {Admin: "https://eu1.example.com", Token: "of-eu1"}, "lan": {Admin: "10.0.0.2:9470"}}.Write())
	for _, c := range []struct {
		target    target
		variable  string
		secret    string
		want, err string
	}{
		{target{}, "", "", "auto ", ""},
		{target{}, "127.0.0.1:2", "", "127.0.0.1:2 ", ""},
		{target{}, "127.0.0.1:2", "of-the-environment", "127.0.0.1:2 of-the-environment", ""},
		{target{config: file}, "127.0.0.1:2", "", "127.0.0.1:1 of-the-configuration", ""},
		{target{admin: "127.0.0.1:3"}, "127.0.0.1:2", "", "127.0.0.1:3 ", ""},
		{target{admin: "127.0.0.1:3", config: file}, "", "", "127.0.0.1:3 of-the-configuration", ""},
		{target{config: off}, "", "", "", `admin.listen = "off"`},
		{target{context: "eu1"}, "127.0.0.1:2", "of-the-environment", "https://eu1.example.com of-eu1", ""},
		{target{context: "lan"}, "127.0.0.1:2", "of-the-environment", "10.0.0.2:9470 ", ""},
		{target{context: "lan", admin: "127.0.0.1:3"}, "", "", "", "want one of them"},
		{target{context: "eu2"}, "", "", "", `context "eu2": want one of: eu1, lan`},
		{target{admin: "nowhere"}, "", "", "", `admin server "nowhere": want "http://HOST:PORT"`},
	} {
		t.Setenv(adminVariable, c.variable)
		t.Setenv(tokenVariable, c.secret)
		address, token, err := c.target.orEnvironment().find()
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%+v: %v, want %s", c.target, err, c.err)
		case c.err == "" && (err != nil || string(address)+" "+token != c.want):
			t.Errorf("%+v with %q: %s %s, %v; want %s", c.target, c.variable, address, token, err, c.want)
		}
	}
}

// TestCommandsWithoutConfiguration asks a running proxy from a folder without a configuration.
func TestCommandsWithoutConfiguration(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	t.Chdir(t.TempDir())
	if code, stdout, stderr := tidegate(t, "health", "--admin", "unix:"+p.admin); code != 0 {
		t.Errorf("--admin: code %d, says %q %q", code, stdout, stderr)
	}
	t.Setenv(adminVariable, "unix:"+p.admin)
	if code, stdout, stderr := tidegate(t, "sessions", "list", "--count"); code != 0 || stdout != "0\n" {
		t.Errorf("%s: code %d, says %q %q", adminVariable, code, stdout, stderr)
	}
}
