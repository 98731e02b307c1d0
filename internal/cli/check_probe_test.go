package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"tidegate/internal/testkit/freeport"
)

// TestCheckProbe asks a RakNet server that is there, one that is not, and none of a protocol without questions.
func TestCheckProbe(t *testing.T) {
	there := gameServer(t)
	if code, stdout, stderr := tidegate(t, "check", "--probe", write(t, bridgeConfig(there))); code != 0 ||
		!strings.Contains(stdout, " "+there+": online") {
		t.Errorf("code %d, says %s%s", code, stdout, stderr)
	}
	absent := freeport.Loopback(t).String()
	two := strings.Replace(bridgeConfig(there), `"`+there+`"`, `"`+there+`", "`+absent+`"`, 1)
	code, stdout, stderr := tidegate(t, "check", "--probe", "--quiet", write(t, two))
	if code != 1 || !strings.Contains(stdout, absent+": no server listens there") || strings.Contains(stdout, "online") ||
		!strings.Contains(stderr, "1 of 2 servers did not answer") {
		t.Errorf("code %d, says %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = tidegate(t, "check", "--probe", "--json", write(t, placed))
	var out struct{ Servers []probed }
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || len(out.Servers) != 2 {
		t.Fatalf("%v: %s", err, stdout)
	}
	if code != 1 || !out.Servers[0].Asked || out.Servers[0].Answered || out.Servers[1].Asked ||
		!strings.Contains(out.Servers[1].Text, "unknown") {
		t.Errorf("code %d, says %s%s", code, stdout, stderr)
	}
}
