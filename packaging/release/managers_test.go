package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManagers wants the archives that exist, with their addresses and sums, and no file for a path that is not known.
func TestManagers(t *testing.T) {
	r := release{folder: t.TempDir(), version: "0.1.0"}
	for _, name := range []string{
		"tidegate_0.1.0_darwin_arm64.tar.gz", "tidegate_0.1.0_linux_amd64.tar.gz", "tidegate_0.1.0_windows_amd64.zip",
	} {
		put(t, r.folder, []string{name}, "", 0o644)
	}
	if err := r.writeManagers("tidegate"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.folder, "tidegate.rb")); !os.IsNotExist(err) {
		t.Errorf("a formula for a path without a host: %v", err)
	}
	if err := r.writeManagers("github.com/you/tidegate"); err != nil {
		t.Fatal(err)
	}
	formula, err := os.ReadFile(filepath.Join(r.folder, "tidegate.rb"))
	if err != nil {
		t.Fatal(err)
	}
	const from = "https://github.com/you/tidegate/releases/download/v0.1.0/"
	for _, want := range []string{
		"  on_macos do\n    on_arm do\n      url \"" + from + "tidegate_0.1.0_darwin_arm64.tar.gz\"\n      sha256 \"" +
			fmt.Sprintf("%x", sha256.Sum256([]byte("tidegate_0.1.0_darwin_arm64.tar.gz"))),
		"  on_linux do\n    on_intel do\n      url \"" + from + "tidegate_0.1.0_linux_amd64.tar.gz",
	} {
		if !strings.Contains(string(formula), want) {
			t.Errorf("the formula lacks %q:\n%s", want, formula)
		}
	}
	if n := strings.Count(string(formula), "url"); n != 2 {
		t.Errorf("the formula has %d archives", n)
	}
	text, err := os.ReadFile(filepath.Join(r.folder, "tidegate.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Architecture map[string]struct{ URL, Hash string }
	}
	err = json.Unmarshal(text, &manifest)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("tidegate_0.1.0_windows_amd64.zip")))
	if one := manifest.Architecture["64bit"]; err != nil || len(manifest.Architecture) != 1 ||
		one.URL != from+"tidegate_0.1.0_windows_amd64.zip" || one.Hash != sum {
		t.Errorf("the manifest has %+v, %v", manifest, err)
	}
}
