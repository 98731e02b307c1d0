package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelpersAreCompiled writes the programs of two targets. One has helpers in other test files, the other is in an
// external test package, which sees what the package exports to its tests.
func TestHelpersAreCompiled(t *testing.T) {
	t.Chdir("../..")
	for _, c := range []struct {
		folder, target, imported string
		external                 bool
	}{
		{"codec/enet", "FuzzReceive", `target "tidegate/codec/enet"`, false},
		{"internal/capture", "FuzzCopy", `target "tidegate/internal/capture/fuzzed"`, true},
	} {
		dir := t.TempDir()
		file, err := write(dir, c.folder, c.target)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var overlay struct{ Replace map[string]string }
		if err := json.Unmarshal(text, &overlay); err != nil {
			t.Fatal(err)
		}
		isExternal, tests := false, 0
		for name := range overlay.Replace {
			isExternal = isExternal || filepath.Base(filepath.Dir(name)) == external
			if strings.Contains(filepath.ToSlash(name), c.folder) {
				tests++
			}
		}
		files, err := filepath.Glob(filepath.Join(c.folder, "*_test.go"))
		if err != nil || tests != len(files) || isExternal != c.external {
			t.Errorf("%s: %d of %d files of tests, in an external package %v: %v", c.folder, tests, len(files), isExternal, err)
		}
		if program, _ := os.ReadFile(filepath.Join(dir, "main.go")); !strings.Contains(string(program), c.imported) {
			t.Errorf("the program of %s does not import %s", c.target, c.imported)
		}
	}
	if _, err := write(t.TempDir(), "codec/enet", "FuzzNothing"); err == nil {
		t.Error("the list has a target without a source")
	}
}
