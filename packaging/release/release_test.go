package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	source := "package daemon\n\nvar Release = \"0.1.0-dev\"\n"
	for _, c := range []struct{ tag, source, want string }{
		{"", source, "0.1.0-dev"},
		{"v0.1.0", source, "0.1.0"},
		{"v0.1.0", "var Release = \"0.1.0\"\n", "0.1.0"},
		{"v0.2.0", source, ""},
		{"v0.1.0", "var release = 1\n", ""},
	} {
		if got, err := version(c.tag, c.source); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q of %q: %q, %v; want %q", c.tag, c.source, got, err, c.want)
		}
	}
}

// put writes files into a folder, in an order and with times of their own.
func put(t *testing.T, folder string, names []string, content string, mode os.FileMode) {
	t.Helper()
	for i, name := range names {
		file := filepath.Join(folder, name)
		at := time.Unix(int64(1e9+i), 0)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(content+name), mode),
			os.Chtimes(file, at, at))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestArchivesAreTheSame packs the same files twice: written in another order, at other times, for other users.
func TestArchivesAreTheSame(t *testing.T) {
	names := []string{"tidegate", "README.md", "docs/a.md", "man/man1/tidegate.1"}
	first, second := filepath.Join(t.TempDir(), "top"), filepath.Join(t.TempDir(), "top")
	put(t, first, names, "text of ", 0o644)
	slices.Reverse(names)
	put(t, second, names, "text of ", 0o600)
	date := time.Unix(1790000000, 0).UTC()
	for kind, pack := range map[string]func(io.Writer, string, time.Time) error{"tar": writeTar, "zip": writeZip} {
		var one, two bytes.Buffer
		if err := errors.Join(pack(&one, first, date), pack(&two, second, date)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("the %s archives differ", kind)
		}
		want := map[string]os.FileMode{"top/tidegate": 0o755, "top/README.md": 0o644, "top/docs/a.md": 0o644,
			"top/man/man1/tidegate.1": 0o644}
		if got := contents(t, kind, one.Bytes(), date); !maps.Equal(got, want) {
			t.Errorf("%s has %v, want %v", kind, got, want)
		}
	}
}

// contents returns the permissions of an archive's files. Each must have its own content and the date.
func contents(t *testing.T, kind string, packed []byte, date time.Time) map[string]os.FileMode {
	t.Helper()
	found := make(map[string]os.FileMode)
	note := func(name string, mode os.FileMode, at time.Time, r io.Reader) {
		content, err := io.ReadAll(r)
		if err != nil || string(content) != "text of "+strings.TrimPrefix(name, "top/") || !at.Equal(date) {
			t.Errorf("%s: %q of %s, %v", name, content, at, err)
		}
		found[name] = mode.Perm()
	}
	if kind == "zip" {
		archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			note(f.Name, f.Mode(), f.Modified, r)
		}
		return found
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		note(header.Name, header.FileInfo().Mode(), header.ModTime, archive)
	}
}

// TestEveryModuleHasAKnownLicence reads the licences of all modules of this test's own kind: those in go.mod.
func TestEveryModuleHasAKnownLicence(t *testing.T) {
	folders, err := moduleFolders()
	if err != nil {
		t.Fatal(err)
	}
	var modules []module
	for key, folder := range folders {
		path, version, _ := strings.Cut(key, "@")
		if version == "" || folder == "" { // Tidegate itself, or a module that no package of it needs
			continue
		}
		modules = append(modules, module{Path: path, Version: version, folder: folder})
	}
	if len(modules) < 15 {
		t.Fatalf("%d modules", len(modules))
	}
	text, err := notices(modules)
	if err != nil {
		t.Error(err)
	}
	for _, m := range modules {
		if ids, err := licenceIDs(m); err != nil || len(ids) == 0 {
			t.Errorf("%s: %v, %v", m.Path, ids, err)
		}
		if !bytes.Contains(text, []byte("\n"+m.Path+" "+m.Version+"\n")) {
			t.Errorf("the notices lack %s", m.Path)
		}
	}
	if _, err := notices([]module{{Path: "example.com/none", Version: "v1", folder: t.TempDir()}}); err == nil {
		t.Error("a module without a licence is accepted")
	}
}

// TestPackagedConfiguration keeps the ban file of packages where the service may write.
func TestPackagedConfiguration(t *testing.T) {
	example, err := os.ReadFile("../../config.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := packagedConfig(string(example))
	if err != nil || !strings.Contains(shipped, "\nfile = \"/var/lib/tidegate/bans.jsonl\"\n") {
		t.Errorf("the packages' configuration has no ban file in the service's folder, %v", err)
	}
}
