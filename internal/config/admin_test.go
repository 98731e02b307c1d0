package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestAdmin(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ table, want string }{
		{``, ""},
		{`listen = "off"`, ""},
		{`listen = "auto"`, ""},
		{`listen = "unix:/run/tidegate/admin.sock"`, ""},
		{`listen = "[::1]:9470"`, ""},
		{`listen = "0.0.0.0:9470"` + "\n" + `token = "0123456789abcdef"`, ""},
		{`listen = "0.0.0.0:9470"`,
			"t.toml:1:2: admin.token: want a token of 16 characters or more, since admin.listen is not on loopback"},
		{`listen = "192.0.2.1:9470"` + "\n" + `token = "short"`,
			`t.toml:3:9: admin.token = "(hidden)": want 16 to 200 letters, digits and signs`},
		{`token = "sixteen letters and blanks"`,
			`t.toml:2:9: admin.token = "(hidden)": want 16 to 200 letters, digits and signs`},
		{`token = "file:` + secret + `"`, ""},
		{`token = "file:/nonexistent"`, `t.toml:2:9: admin.token = "(hidden)": want a token, or "file:" and the path ` +
			`of a file ` +
			`with it: open /nonexistent: no such file or directory`},
		{`listen = "unix:"`, `t.toml:2:10: admin.listen = "unix:": want a path of 1 to 100 bytes after unix:`},
		{`listen = "127.0.0.1:0"`, `t.toml:2:10: admin.listen = "127.0.0.1:0": want "auto", ip:port, for example ` +
			`"127.0.0.1:9470", "unix:/run/tidegate/admin.sock" or "off"`},
		{`listen = "localhost"`, `t.toml:2:10: admin.listen = "localhost": want "auto", ip:port, for example ` +
			`"127.0.0.1:9470", "unix:/run/tidegate/admin.sock" or "off"`},
	} {
		// Faults elsewhere in the file do not matter for the [admin] table.
		path := filepath.Join(t.TempDir(), "t.toml")
		if err := os.WriteFile(path, []byte("[admin]\n"+c.table+"\n[limits]\nsessions = \"many\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadAdmin(path)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), filepath.Dir(path)+"/")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.table, got, c.want)
		}
	}
}

func TestLoadAdminReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.toml")
	text := "[admin]\nlisten = \"unix:/tmp/a\"\ntoken = \"0123456789abcdef\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadAdmin(path)
	if want := (Admin{"unix:/tmp/a", "0123456789abcdef"}); err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if err := os.WriteFile(path, []byte("[admin"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAdmin(path); err == nil || !strings.Contains(err.Error(), "want valid TOML") {
		t.Errorf("of no TOML: %v", err)
	}
}

// TestSecretsStayHidden checks that no fault shows a secret, also where its key or its type is wrong.
func TestSecretsStayHidden(t *testing.T) {
	for _, text := range []string{
		"[admin]\ntokne = \"SuperSecret\"", "[admin]\ntoken = [\"SuperSecret\"]", "[admin]\npass = \"SuperSecret\"",
		"admin = \"SuperSecret\"", "token = \"SuperSecret\"", "admin_token = \"SuperSecret\"",
		"[raknet]\ncookie_secret = \"SuperSecret\"\ncookie_mode = \"offloaded-psk\"",
		"[raknet]\ncookie_secret = [\"SuperSecret\"]", "[raknet]\ncookie_secert = \"SuperSecret\"",
		"[[upstream]]\ncookieSecret = \"SuperSecret\"", "[[upstream]]\ncookie_secret = {a = \"SuperSecret\"}",
		"[admin]\ntoken = SuperSecret", "[admin]\ntoken = \"SuperSecret", "[admin]\ntoken.SuperSecret = 1\ntoken = 2",
	} {
		_, _, err := Parse("t.toml", []byte(text), known)
		if err == nil {
			t.Errorf("%s: want a fault", text)
		} else if strings.Contains(err.Error(), "Super") && !strings.Contains(text, ".SuperSecret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTokenInAnOpenFile checks the warning about a file with a token that every user can read.
func TestTokenInAnOpenFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has other permissions")
	}
	path := filepath.Join(t.TempDir(), "t.toml")
	if err := os.WriteFile(path, []byte("[admin]\ntoken = \"0123456789abcdef\"\n"+valid), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := Load(path, known)
		if err != nil || len(warnings) != want || want > 0 && !strings.Contains(warnings[0].Want, "chmod o= "+path) {
			t.Errorf("%o: %v, %v", mode, warnings, err)
		}
	}
}
