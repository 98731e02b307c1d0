package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckReadsBans: a file that would stop the proxy from starting is named before that.
func TestCheckReadsBans(t *testing.T) {
	path := write(t, bridgeConfig("127.0.0.1:1")+"[bans]\nfile = \"bans.jsonl\"\n")
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 0 {
		t.Errorf("without the file: code %d, says %q", code, stderr)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "bans.jsonl"), []byte("who?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 2 || !strings.Contains(stderr, "bans.jsonl:1") {
		t.Errorf("a damaged file: code %d, says %q", code, stderr)
	}
}
