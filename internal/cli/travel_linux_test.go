package cli

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/udppath"
)

// TestExportAndImport looks at a session, and then moves it to another process while its player talks.
func TestExportAndImport(t *testing.T) {
	configuration := bridgeConfig(echoServer(t))
	one, other := startProcess(t, configuration), startProcess(t, configuration)
	path := udppath.New(t, netip.MustParseAddrPort(one.addr))
	player := &process{addr: path.Addr().String()}
	talk := player.talking(t, 1)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }

	code, stdout, stderr := tidegate(t, "sessions", "export", "--all", "-c", one.file)
	if code != 0 || !strings.Contains(stdout, `"kind":"bedrock"`) || !strings.Contains(stdout, `"guid":"hidden"`) ||
		strings.Contains(stdout, `"record"`) || !strings.Contains(stderr, "exported: 1") {
		t.Fatalf("code %d, says %.2000q %q", code, stdout, stderr)
	}
	t.Logf("%s", stdout)
	if err := os.WriteFile(file("shown"), []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = tidegate(t, "sessions", "import", "-c", other.file, file("shown"))
	if code != 1 || !strings.Contains(stderr, "session 1 refused: the file lacks its secrets") {
		t.Errorf("without secrets: code %d, says %q", code, stderr)
	}

	code, stdout, stderr = tidegate(t, "sessions", "export", "--all", "--move", "--json", "-o", file("moving"),
		"-c", one.file)
	var done travelled
	if err := json.Unmarshal([]byte(stderr), &done); err != nil || code != 0 || stdout != "" || len(done.Done) != 1 {
		t.Fatalf("code %d, says %q %q: %v", code, stdout, stderr, err)
	}
	if info, err := os.Stat(file("moving")); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("the file with secrets: %v, %v", info.Mode(), err)
	}
	if _, stdout, _ := tidegate(t, "sessions", "list", "--count", "-c", one.file); stdout != "0\n" {
		t.Errorf("the first process still has %s", stdout)
	}
	path.Switch(netip.MustParseAddrPort(other.addr))
	code, _, stderr = tidegate(t, "sessions", "import", "-c", other.file, file("moving"))
	if code != 0 || stderr != "taken in: 1\n" {
		t.Errorf("code %d, says %q", code, stderr)
	}
	talk.goesOn(t)
	await.Until(t, "at the other process", func() bool {
		_, stdout, _ := tidegate(t, "sessions", "list", "--count", "-c", other.file)
		return stdout == "1\n"
	})
	code, _, stderr = tidegate(t, "sessions", "export", "1", "77", "-c", other.file)
	if code != 1 || !strings.Contains(stderr, "session 77 stays: ") {
		t.Errorf("of an unknown session: code %d, says %q", code, stderr)
	}
	talk.end(t)
}

// TestExportMisuse ends with code 2.
func TestExportMisuse(t *testing.T) {
	here := write(t, "{}\nnonsense\n")
	for says, args := range map[string][]string{
		"want IDs, flags that choose sessions, or --all":          {"export"},
		"want -o FILE, since the sessions leave the proxy":        {"export", "--move", "--all"},
		"exists: choose another file, or replace it with --force": {"export", "--all", "-o", here},
		"no such file":                          {"import", "/nonexistent"},
		":1: want a session of sessions export": {"import", here},
		"sessions import: want FILE":            {"import"},
	} {
		args = append([]string{"sessions", args[0], "--admin", "127.0.0.1:9"}, args[1:]...)
		if code, _, stderr := tidegate(t, args...); code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%v: code %d, says %q, want 2 and %q", args, code, stderr, says)
		}
	}
}
