package config

import (
	"strings"
	"testing"
)

// TestKeysWithoutEffect asserts that check names keys that do nothing.
func TestKeysWithoutEffect(t *testing.T) {
	for _, c := range []struct{ old, text, want string }{
		{"[[upstream]]", "hold_time = \"90s\"\n[[upstream]]", "hold_time"},
		{"[[upstream]]", "hold_goodbyes = true\n[[upstream]]", "hold_goodbyes"},
		{"[[upstream]]", "hold_new_ids = true\n[[upstream]]", "hold_new_ids"},
		{"[[upstream]]", "hold_time = \"90s\"\nfailover = \"hold\"\n[[upstream]]", ""},
		{"[[listener]]", "[loop]\nbackend = \"portable\"\n[[listener]]", ""},
		{"[[listener]]", "[[listener]]", ""},
	} {
		_, warnings, err := Parse("t.toml", []byte(strings.Replace(valid, c.old, c.text, 1)), known)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got := Faults(warnings).Error(); (c.want == "") != (len(warnings) == 0) || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
