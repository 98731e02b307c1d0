package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// recordConfig is bridgeConfig with a black box that saves to a directory.
func recordConfig(server, directory string) string {
	return bridgeConfig(server) + "[record]\nlast = \"1m\"\nmemory = \"8MiB\"\ndirectory = \"" + directory + "\"\n"
}

// TestCaptureLast saves sessions that have ended, from memory. The file has exactly the bytes that an independent
// client sent and received, also before its session began.
func TestCaptureLast(t *testing.T) {
	directory := t.TempDir()
	p := startProcess(t, recordConfig(echoServer(t), directory))
	wire := new(wiretap)
	playRakNet(t, p.addr, wire)
	ended := p.await(t, "session ended")
	session := ended["session"].(string)
	for _, filter := range []string{"--session=" + session, "--client=127.0.0.0/8"} {
		path := filepath.Join(t.TempDir(), "before.pcapng")
		code, stdout, stderr := tidegate(t, "capture", "-c", p.file, "--last", "30s", filter, "-o", path)
		if code != 0 || stdout != "" ||
			!regexp.MustCompile(`(?m)^datagrams written: \d\d+, left out: 0$`).MatchString(stderr) {
			t.Fatalf("%s: code %d, says %s%s", filter, code, stdout, stderr)
		}
		if got := readCapture(t, path); !wire.isIn(got) {
			t.Errorf("%s: captured %q", filter, got)
		}
		explained(t, path, "raknet")
	}
	if files, _ := os.ReadDir(directory); len(files) > 0 {
		t.Errorf("a session that ended by a goodbye was saved: %v", files)
	}
}

// TestKickedSessionIsSaved finds the file of a kicked session, which only its owner can read.
func TestKickedSessionIsSaved(t *testing.T) {
	directory := t.TempDir()
	p := startProcess(t, recordConfig(echoServer(t), directory))
	conn, err := gork.DialTimeout(p.addr, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	session := p.await(t, "session established")["session"].(string)
	if code, _, stderr := tidegate(t, "sessions", "kick", session, "-c", p.file); code != 0 {
		t.Fatal(stderr)
	}
	saved := p.await(t, "session saved")
	await.Until(t, "the client is gone", func() bool { _, err := conn.ReadPacket(); return err != nil })
	path := saved["file"].(string)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(path) != directory ||
		!strings.HasSuffix(path, "-session-"+session+"-kicked.pcapng") {
		t.Fatalf("saved as %s, %v, %v", path, info, err)
	}
	got := readCapture(t, path)
	for _, way := range []string{"client inbound", "client outbound", "upstream inbound", "upstream outbound"} {
		if len(got[way]) < 4 {
			t.Errorf("%s: %d datagrams", way, len(got[way]))
		}
	}
}

// TestCaptureLastMisuse covers a proxy that records nothing, and flags that do not fit.
func TestCaptureLastMisuse(t *testing.T) {
	off := startProcess(t, bridgeConfig("127.0.0.1:1"))
	on := startProcess(t, recordConfig("127.0.0.1:1", t.TempDir()))
	path := filepath.Join(t.TempDir(), "x.pcapng")
	for _, c := range []struct {
		p    *process
		args []string
		code int
		says string
	}{
		{off, []string{"--last", "30s"}, 1, "nothing is recorded: set record.last and restart"},
		{on, []string{"--last", "30s", "--session", "z"}, 1, "nothing recorded of this in that time"},
		{on, []string{"--last", "0s"}, 2, "--last 0s: want more than 0s"},
		{on, []string{"--last", "1s", "--for", "1s"}, 2, "--last: want it without --for, --route and --upstream"},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"capture", "-c", c.p.file, "-o", path}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("capture %v: code %d, says %s%s; want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made although nothing was captured")
	}
}

// TestCheckStatesMemory says what a recording costs and holds.
func TestCheckStatesMemory(t *testing.T) {
	file := write(t, recordConfig("127.0.0.1:1", t.TempDir()))
	code, stdout, stderr := tidegate(t, "check", file)
	const want = "record: 8MiB of memory; holds 1m of 472 datagrams of 200 bytes a second\n"
	if code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("code %d, says\n%s%s", code, stdout, stderr)
	}
	file = write(t, recordConfig("127.0.0.1:1", "missing"))
	_, _, stderr = tidegate(t, "check", file)
	if !strings.Contains(stderr, `record.directory = "missing" is no directory`) {
		t.Errorf("says %s", stderr)
	}
}
