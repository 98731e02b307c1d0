package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const handshake = "codec/riptide/testdata/riptide-2.2.1/connect-heartbeat-disconnect.jsonl"

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{handshake},
			[]string{"riptide-2.2  1 byte  connect\n", "welcome: you are client 1\n", "; 0 not understood; "}},
		{[]string{"--json", handshake}, []string{`"text":"heartbeat 0, round trip unknown"`, `"unknown":0,`}},
		{[]string{"--json", "codec/raknet/testdata/split_20k.jsonl.gz"},
			[]string{"split message 0 complete: ", `"unknown":0,`}},
		{[]string{"-p", "rudp", "--port", "7777", handshake}, []string{" rudp; 12 not understood; "}},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"decode"}, c.args...)...)
		for _, says := range c.says {
			if code != 0 || !strings.Contains(stdout, says) {
				t.Errorf("decode %v: code %d, %q, says:\n%s\nwant %q", c.args, code, stderr, stdout, says)
			}
		}
	}
}

func TestDecodeMisuse(t *testing.T) {
	noCapture := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(noCapture, []byte("no capture"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "want one FILE"},
		{[]string{handshake, handshake}, 2, "want one FILE"},
		{[]string{"-p", "smtp", handshake}, 2, `--protocol "smtp": want raknet, `},
		{[]string{"--port", "0", handshake}, 2, "--port 0: want 1 to 65535"},
		{[]string{"--port", "65536", handshake}, 2, "--port 65536: want 1 to 65535"},
		{[]string{"/nonexistent.pcap"}, 1, "/nonexistent.pcap: no such file"},
		{[]string{noCapture}, 1, "notes.txt: not a capture: want JSON Lines, pcap or pcapng"},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"decode"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("decode %v: code %d, %q, says %q; want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
}

func TestDecodeStandardInput(t *testing.T) {
	file, err := os.Open(handshake)
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = file
	t.Cleanup(func() {
		os.Stdin = stdin
		_ = file.Close()
	})
	_, want, _ := tidegate(t, "decode", handshake)
	if code, stdout, stderr := tidegate(t, "decode", "-"); code != 0 || stdout != want {
		t.Errorf("code %d, %q, says:\n%s\nwant:\n%s", code, stderr, stdout, want)
	}
	if code, _, stderr := tidegate(t, "decode", "-"); code != 1 ||
		!strings.Contains(stderr, "standard input: not a capture") {
		t.Errorf("at its end: code %d, %q", code, stderr)
	}
}
