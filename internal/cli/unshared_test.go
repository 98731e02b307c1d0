package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tidegate/internal/fleet/view"
)

// TestCutOffNodeSaysSo bans and drains at a node. A node that is cut off from its fleet must say so, and obey.
func TestCutOffNodeSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		state view.Fleet
		want  string
	}{
		"no fleet": {view.Fleet{}, ""},
		"in order": {view.Fleet{On: true, Current: true}, ""},
		"a fault":  {view.Fleet{On: true, Error: "no majority"}, "not shared yet: no majority"},
		"cut off":  {view.Fleet{On: true}, "not shared yet: the fleet does not answer"},
		"it waits": {view.Fleet{On: true, Current: true, Waiting: 3}, "not shared yet: 3 changes wait"},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/fleet" {
				_ = json.NewEncoder(w).Encode(test.state)
				return
			}
			_, _ = w.Write([]byte("{}"))
		}))
		t.Setenv(adminVariable, web.URL)
		for _, args := range [][]string{
			{"ban", "add", "192.0.2.10"}, {"ban", "del", "192.0.2.10"}, {"upstreams", "drain", "arena", "192.0.2.1:7777"},
		} {
			code, _, stderr := tidegate(t, args...)
			if code != 0 || strings.Contains(stderr, "not shared") != (test.want != "") || !strings.Contains(stderr, test.want) {
				t.Errorf("%s: %v: code %d, says %q, want %q", name, args, code, stderr, test.want)
			}
		}
		web.Close()
	}
}
