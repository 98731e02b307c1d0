package config

import (
	"strings"
	"testing"
)

// TestRulesAboutRelayedMessagesAreWarnedOf, whether they name the listener or are about all.
func TestRulesAboutRelayedMessagesAreWarnedOf(t *testing.T) {
	relayed := strings.Replace(valid, `name = "arena"`, "name = \"arena\"\nmode = \"relay\"", 1)
	rule := "\n[[filter]]\nname = \"x\"\nverdict = \"drop\"\nids = [\"7\"]\n"
	const want = `want listeners of routes with mode = "terminate": a relay sees no messages, so this rule has no effect on "public"`
	for _, row := range []struct {
		name, file, warning string
	}{
		{"terminated", valid + rule, ""},
		{"of all listeners", relayed + rule, "t.toml:17:3: filter[0].listeners: " + want},
		{"by name", relayed + rule + "listeners = [\"public\"]", `t.toml:21:13: filter[0].listeners = ["public"]: ` + want},
	} {
		_, warnings, err := Parse("t.toml", []byte(row.file), known)
		if err != nil {
			t.Fatal(err)
		}
		if got := Faults(warnings).Error(); got != row.warning {
			t.Errorf("%s:\n%s\nwant\n%s", row.name, got, row.warning)
		}
	}
}
