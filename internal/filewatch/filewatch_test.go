package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

// watch runs a Watcher during the test, and returns the names that it reports.
func watch(t *testing.T, files ...string) <-chan string {
	t.Helper()
	_, told := watcher(t, files...)
	return told
}

func watcher(t *testing.T, files ...string) (*Watcher, <-chan string) {
	t.Helper()
	w, err := New(files...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	told, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func(file string) { told <- file })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w, told
}

func write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// next returns the next name that a Watcher reports.
func next(t *testing.T, told <-chan string) string {
	t.Helper()
	select {
	case file := <-told:
		return file
	case <-time.After(await.Patience):
		t.Fatal("told of nothing")
		return ""
	}
}

func expect(t *testing.T, told <-chan string, want string) {
	t.Helper()
	if got := next(t, told); got != want {
		t.Fatalf("told of %s, want %s", got, want)
	}
}

// TestTellsOfEveryWayToChange creates a file, writes to it, replaces it and removes it. Other files in the folder
// change meanwhile and must not be reported.
func TestTellsOfEveryWayToChange(t *testing.T) {
	dir := t.TempDir()
	file, other, fresh := filepath.Join(dir, "list"), filepath.Join(dir, "other"), filepath.Join(dir, "list.new")
	told := watch(t, file)
	for _, change := range []func() error{
		func() error { return os.WriteFile(file, []byte("1"), 0o600) },
		func() error { return os.WriteFile(file, []byte("2"), 0o600) },
		func() error { write(t, fresh); return os.Rename(fresh, file) },
		func() error { return os.Remove(file) },
	} {
		write(t, other)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		expect(t, told, file)
	}
	if len(told) > 0 {
		t.Errorf("told of %s once more", <-told)
	}
}

func TestNamesFilesAsGiven(t *testing.T) {
	t.Chdir(t.TempDir())
	told := watch(t, "here")
	write(t, "here")
	expect(t, told, "here")
}

func TestWantsTheFolder(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "no", "list")); err == nil {
		t.Error("no error for a file in a folder that does not exist")
	}
}
