package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gork "github.com/sandertv/go-raknet"
	"github.com/urfave/cli/v2"
)

// shellScripts complete their arguments as each shell does, and print the words.
var shellScripts = map[string]string{
	"zsh": `compdef() { :; }; _files() { print :files; }; compadd() { print -l -- $values; }; ` +
		`source <(tidegate completion zsh); words=("$@"); CURRENT=$#; _tidegate`,
	"fish": `tidegate completion fish | source; complete -C "$argv"`,
}

// TestCompletionInOtherShells runs the scripts of zsh and fish, where they are installed.
func TestCompletionInOtherShells(t *testing.T) {
	bin := programFolder(t)
	for shell, script := range shellScripts {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s", shell)
			continue
		}
		for _, c := range []struct {
			words []string
			want  string
		}{
			{[]string{"che"}, "check"},
			{[]string{"demo", "--"}, "--from"},
			{[]string{"demo", "--from", "ript"}, "riptide-2.2+tcp"},
		} {
			args := append([]string{"tidegate"}, c.words...)
			if shell == "fish" {
				args = append([]string{"-c", script, "--"}, args...)
			} else {
				args = append([]string{"-c", script, shell}, args...)
			}
			cmd := exec.Command(path, args...)
			cmd.Env = append(os.Environ(), "TIDEGATE_MAIN=1", "HOME="+t.TempDir(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !slices.Contains(strings.Fields(string(out)), c.want) {
				t.Errorf("%s after %q: %v, %s; want %q", shell, c.words, err, out, c.want)
			}
		}
	}
}

// programFolder returns a folder with this binary as tidegate.
func programFolder(t *testing.T) string {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "tidegate")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// completed returns bash's completions after some words.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	bin := programFolder(t)
	script := `source <(tidegate completion bash); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; _tidegate; printf ` +
		`'%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command(bash, append([]string{"-c", script, "bash", "tidegate"}, words...)...)
	cmd.Env = append(os.Environ(), "TIDEGATE_MAIN=1", "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

func TestCompletionInBash(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"che"}, "check"},
		{[]string{"demo", "--fr"}, "--from"},
		{[]string{"completion", ""}, "fish"},
		{[]string{"check", "--"}, "--config"},
		{[]string{"demo", "--from", "rip"}, "riptide-2.2"},
		{[]string{"demo", "--to=rip"}, "riptide-2.2"},
		{[]string{"init", "--to", "rtype-f"}, "rtype-final"},
		{[]string{"sessions", "list", "--sort", ""}, "server-rtt"},
		{[]string{"help", "ban", ""}, "import"},
		{[]string{"check", "-c", "config.ex"}, "config.example.toml"},
	} {
		if got := completed(t, c.words...); !slices.Contains(got, c.want) {
			t.Errorf("after %q: %q, want %q among them", c.words, got, c.want)
		}
	}
}

// TestCompletionOfRunningProxy completes IDs, servers, names and bans.
func TestCompletionOfRunningProxy(t *testing.T) {
	server := echoServer(t)
	p := startProcess(t, bridgeConfig(server)+"[loop]\ncount = 1\n")
	client, err := gork.Dial(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	p.await(t, "session established")
	if code, _, stderr := tidegate(t, "ban", "add", "-c", p.file, "192.0.2.7"); code != 0 {
		t.Fatal(stderr)
	}
	host, port, _ := strings.Cut(server, ":")
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"sessions", "-c", p.file, "kick", ""}, "1"},
		{[]string{"sessions", "transfer", "-c", p.file, "1", ""}, server},
		{[]string{"upstreams", "drain", "-c", p.file, ""}, "arena"},
		{[]string{"upstreams", "drain", "-c", p.file, "arena", host + ":"}, port}, // bash replaces the part after the colon
		{[]string{"sessions", "list", "--admin", "unix:" + p.admin, "--listener", ""}, "public"},
		{[]string{"ban", "del", "-c", p.file, "192"}, "192.0.2.7/32"},
	} {
		if got := completed(t, c.words...); !slices.Contains(got, c.want) {
			t.Errorf("after %q: %q, want %q among them", c.words, got, c.want)
		}
	}
	if got := completed(t, "sessions", "kick", "-c", "/nonexistent", ""); len(got) > 0 {
		t.Errorf("without a proxy: %q", got)
	}
}

// TestCompletionTables checks that each entry of the tables names a command, and a flag of it.
func TestCompletionTables(t *testing.T) {
	flags := make(map[string]bool)
	eachCommand(App(nil).Commands, "", func(path string, c *cli.Command) {
		flags[path] = true
		for _, f := range c.Flags {
			flags[f.Names()[0]], flags[path+" "+f.Names()[0]] = true, true
		}
	})
	for path := range argumentValues {
		if !flags[path] {
			t.Errorf("no command %s", path)
		}
	}
	for path := range flagValues {
		if !flags[path] {
			t.Errorf("no flag %s", path)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"completion zsh", "#compdef tidegate"},
		{"completion fish", "complete -c tidegate"},
	} {
		code, stdout, stderr := tidegate(t, strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: code %d, says %.80q %q; want %q", c.args, code, stdout, stderr, c.want)
		}
	}
	if code, _, stderr := tidegate(t, "completion", "cmd"); code != 2 || !strings.Contains(stderr, "bash, zsh or fish") {
		t.Errorf("a shell that is none: code %d, says %q", code, stderr)
	}
}
