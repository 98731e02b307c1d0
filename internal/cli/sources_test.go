package cli

import (
	"runtime"
	"strings"
	"testing"
)

// TestSourcesThatAreNotLocal: where Tidegate will run may be another machine than where it is checked.
func TestSourcesThatAreNotLocal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	text := strings.Replace(bridgeConfig("127.0.0.1:1"), "servers = [", "source_prefix = \"192.0.2.0/24\"\nservers = [", 1)
	code, stdout, stderr := tidegate(t, "check", "-c", write(t, text))
	if code != 0 || !strings.Contains(stderr, "warning: upstream arena: source_prefix: 192.0.2.0/24 is not local") {
		t.Errorf("check: code %d\n%s\n%s", code, stdout, stderr)
	}
	if code, _, stderr := tidegate(t, "run", "-c", write(t, text)); code != 1 || !strings.Contains(stderr, "is not local") {
		t.Errorf("run: code %d\n%s", code, stderr)
	}
}
