package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// ownContexts gives the test a folder of its own for contexts. It returns the path of their file.
func ownContexts(t *testing.T) (file string) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, folder)
	}
	for _, name := range []string{adminVariable, tokenVariable, contextVariable} {
		t.Setenv(name, "")
	}
	own, err := os.UserConfigDir()
	must(t, err)
	return filepath.Join(own, "tidegate", "contexts.toml")
}

// says runs a command, and checks its exit code and a part of its output.
func says(t *testing.T, code int, part string, args ...string) {
	t.Helper()
	if got, stdout, stderr := tidegate(t, args...); got != code || !strings.Contains(stdout+stderr, part) {
		t.Errorf("%s: code %d, %q %q; want %d and %q", strings.Join(args, " "), got, stdout, stderr, code, part)
	}
}

// TestContexts names proxies, asks them by --context and by the environment, lists the health of all, and forgets one.
func TestContexts(t *testing.T) {
	file := ownContexts(t)
	const secret = "0123456789abcdef"
	socket := socketPath(t)
	startProcess(t, bridgeConfig(echoServer(t))+"[admin]\nlisten = \"unix:"+socket+"\"\ntoken = \""+secret+"\"\n")
	token := write(t, secret+"\n")
	says(t, 1, `context "eu1": want one of`, "health", "--context", "eu1")
	says(t, 0, "contexts: eu1", "context", "add", "eu1", "unix:"+socket, "--token-file", token)
	t.Setenv(tokenVariable, "another-proxy's-token")
	says(t, 0, "contexts: eu1, gone", "context", "add", "gone", "127.0.0.1:1")
	says(t, 2, "want a name", "context", "add", "a b", "127.0.0.1:1")
	says(t, 2, `want "http://HOST:PORT"`, "context", "add", "b", "nowhere")
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	says(t, 0, "ok", "health", "--context", "eu1")
	says(t, 0, "banned", "ban", "add", "192.0.2.1", "--context", "eu1")
	says(t, 0, "192.0.2.1/32", "ban", "list", "--context", "eu1")
	says(t, 2, "want one of them", "ban", "list", "--context", "eu1", "--file", file)
	says(t, 0, "ban of 192.0.2.1/32", "why", "192.0.2.1", "--context", "eu1")
	says(t, 1, "connection refused", "sessions", "list", "--context", "gone")
	says(t, 1, "not ok", "context", "list")
	says(t, 0, "", "context", "del", "gone")
	says(t, 1, `context "gone": want one of: eu1`, "context", "del", "gone")
	says(t, 0, `"name":"eu1","admin":"unix:`+socket+`","ok":true`, "context", "list", "--json")
	t.Setenv(contextVariable, "eu1")
	says(t, 0, "0\n", "sessions", "list", "--count")
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "gone") {
		t.Errorf("%s, %v", text, err)
	}
}
