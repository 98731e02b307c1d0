//go:build unix

package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpen opens a file, also by a link, and refuses everything else without waiting.
func TestOpen(t *testing.T) {
	folder := t.TempDir()
	file, link, pipe := filepath.Join(folder, "file"), filepath.Join(folder, "link"), filepath.Join(folder, "pipe")
	if err := os.WriteFile(file, []byte("tide"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if text, err := ReadFile(path); err != nil || string(text) != "tide" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		if err := Check(path); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]string{folder: "a directory", pipe: "a pipe", os.DevNull: "a device"} {
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "not "+want) {
			t.Errorf("%s: %v", path, err)
		}
		if Check(path) == nil {
			t.Errorf("%s is a regular file", path)
		}
	}
	if _, err := Open(filepath.Join(folder, "none")); !os.IsNotExist(err) || Check(filepath.Join(folder, "none")) != nil {
		t.Error(err)
	}
}
