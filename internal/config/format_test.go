package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherFormats names the format or encoding of a file that is not TOML.
func TestOtherFormats(t *testing.T) {
	for text, want := range map[string]string{
		"\xff\xfel\x00i\x00":                   "in UTF-16",
		"\x7fELF\x02\x01\x01\x00\x00":          "a program or another binary file",
		"{\"listener\": []}":                   "looks like JSON",
		"listener:\n  - name: public\n":        "looks like YAML",
		"---\nlog:\n  level: info\n":           "looks like YAML",
		"[log]\rlevel = \"info\"\r[loop]\r":    "carriage return",
		"[log]\nlevel: \"info\"\n":             "t.toml:2:",
		"[[listener]]\nname = \"a: b\nx = 1\n": "t.toml:2:",
	} {
		_, _, err := Parse("t.toml", []byte(text), known)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestMissingFiles reports files that do not exist with their positions, among all other faults.
func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.toml")
	text := "[[access]]\nname = \"x\"\nverdict = \"drop\"\nfiles = [\"missing.txt\", \".\"]\ncountries = [\"DE\"]\n" +
		"[geo]\ncountry_file = \"nope.mmdb\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(path, known)
	for _, want := range []string{
		`:4:10: access[0].files[0] = "missing.txt": want the path of a file with a prefix on each line; ` +
			filepath.Join(dir, "missing.txt") + " does not exist",
		`:4:25: access[0].files[1] = "."`, "is a folder",
		`:7:16: geo.country_file = "nope.mmdb": want the path of a MaxMind database of countries; `,
		"listener: want at least one [[listener]] table, with a [[route]] and an [[upstream]]",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("faults:\n%v\nwant %s", err, want)
		}
	}
}

// TestEmptyTables reports all missing keys of empty tables at once.
func TestEmptyTables(t *testing.T) {
	_, _, err := Parse("t.toml", []byte("[[listener]]\n[[route]]\n[[upstream]]\n"), known)
	for _, key := range []string{"listener[0].name", "listener[0].address", "listener[0].protocols", "listener[0].route",
		"route[0].name", "route[0].upstream", "upstream[0].name", "upstream[0].protocol", "upstream[0].servers"} {
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("%s is not among\n%v", key, err)
		}
	}
	if want := "listener[0].route: want the name of one of the [[route]] tables; give it one"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("want %q among\n%v", want, err)
	}
}
