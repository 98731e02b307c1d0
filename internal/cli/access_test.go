package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// TestSessionLines reads the lines of a session's life in the log and in the access log. All have the ID that commands
// take, and the last ones the cause of the end.
func TestSessionLines(t *testing.T) {
	access := filepath.Join(t.TempDir(), "access.jsonl")
	p := startProcess(t, bridgeConfig(echoServer(t))+"[log]\naccess_file = '"+access+"'\n")
	client, err := gork.Dial(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	id := p.await(t, "session established")["session"].(string)
	if _, err := client.Write([]byte{0xfe, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReadPacket(); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tidegate(t, "sessions", "kick", id, "-c", p.file); code != 0 {
		t.Fatal(stderr)
	}
	ended := p.await(t, "session ended")
	var line map[string]any
	await.Until(t, "the access log has the session", func() bool {
		text, err := os.ReadFile(access)
		return err == nil && json.Unmarshal(text, &line) == nil
	})
	for name, of := range map[string]map[string]any{"log": ended, "access log": line} {
		for key, want := range map[string]any{
			"session": id, "listener": "public", "route": "arena", "client": client.LocalAddr().String(), "protocol": "bedrock",
			"reason": "kicked", "by": "proxy", "cause": "an operator", "messages_up": 1.0, "messages_down": 1.0,
			"client_resent": 0.0,
		} {
			if of[key] != want {
				t.Errorf("%s: %s is %v, want %v", name, key, of[key], want)
			}
		}
		if of["suppressed"] != nil || of["client_rtt_ms"] == nil || of["server_lost"] == nil || of["lasted_ms"] == nil {
			t.Errorf("%s: %v", name, of)
		}
	}
	if opened, _ := line["opened"].(string); line["message"] != nil || !strings.Contains(opened, ".") {
		t.Errorf("access log: %v", line)
	}
}

// TestBansAreInForceAtOnce asks about an address right after a command has changed its ban, without a wait.
func TestBansAreInForceAtOnce(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1")+"[bans]\nfile = 'bans.jsonl'\n")
	for i := range 3 {
		for _, command := range []string{"add", "del"} {
			if code, _, stderr := tidegate(t, "ban", command, "192.0.2.9", "-c", p.file); code != 0 {
				t.Fatal(stderr)
			}
			_, stdout, stderr := tidegate(t, "why", "192.0.2.9", "-c", p.file)
			if strings.Contains(stdout, "is not allowed") != (command == "add") || stdout == "" {
				t.Errorf("round %d, after ban %s: %q %q", i, command, stdout, stderr)
			}
		}
	}
}

// TestNoCookie names the remedy for a client whose library does not return RakNet's cookie.
func TestNoCookie(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	conn, err := net.Dial("udp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	magic := "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"
	request := "\x07" + magic + "\x04\x80\xff\xff\xfe\x1e\x61" + "\x05\x78" + "\x00\x00\x00\x00\x00\x00\x00\x07"
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	line := p.await(t, "dropped")
	text, _ := line["error"].(string)
	if line["reason"] != "no-cookie" || !strings.Contains(text, `cookie_mode = "none"`) {
		t.Errorf("log: %v", line)
	}
	await.Until(t, "why names it", func() bool {
		_, stdout, _ := tidegate(t, "why", "127.0.0.1", "-c", p.file)
		return strings.Contains(stdout, "its last datagram was dropped: no-cookie") &&
			strings.Contains(stdout, `cookie_mode = "none"`)
	})
}
