package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root    = "../.."
	wanted  = "example.org/you/tidegate"
	inImage = "registry.example.org/you/tidegate"
)

// TestReadme wants README's section that fits the module's path.
func TestReadme(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n")
	if modulePath.MatchString(path) == bytes.Contains(readme, []byte(unpublished)) {
		t.Errorf("README's section Install does not fit the module %s", path)
	}
	// TestNewcomerPath counts README, and must pass in a renamed source, too.
	if was, is := strings.Count(unpublished, "\n"), strings.Count(published, "\n"); is > was {
		t.Errorf("the published section has %d lines, the other one %d", is, was)
	}
}

// TestRename renames a copy of the source. All its packages are found under the new path, and none under the old one.
// With TIDEGATE_RENAMED=1 it builds all of them, and runs the tests of the root: some minutes of processor time.
func TestRename(t *testing.T) {
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skip(err) // an archive of the source
	}
	files := strings.Split(strings.Trim(string(listed), "\x00"), "\x00")
	folder := t.TempDir()
	for _, file := range files {
		at := filepath.Join(folder, file)
		content, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(at), 0o755)
		}
		if err == nil {
			err = os.WriteFile(at, content, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rename(folder, files, wanted, inImage); err != nil {
		t.Fatal(err)
	}
	run := func(in string, args ...string) string {
		t.Helper()
		c := exec.Command("go", args...)
		c.Dir = filepath.Join(folder, in)
		c.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v in %q: %v\n%s", args, in, err, out)
		}
		return string(out)
	}
	for _, in := range []string{"", "tools/bench", "examples/library"} {
		for _, pkg := range strings.Fields(run(in, "list", "-deps", "-test", "./...")) {
			if strings.HasPrefix(pkg, "tidegate/") {
				t.Errorf("in %q: package %s", in, pkg)
			}
		}
	}
	for file, want := range map[string]string{
		"README.md": "go install " + wanted + "@latest", "packaging/helm/tidegate/values.yaml": "  repository: " + inImage,
		"packaging/docker/Dockerfile": "-X " + wanted + "/internal/daemon.commit=", "layers_test.go": `= "` + wanted + `"`,
		"packaging/nfpm.yaml": "/usr/share/doc/tidegate/packaging/", "docs/library.md": "replace " + wanted + " =>",
	} {
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil || !bytes.Contains(content, []byte(want)) {
			t.Errorf("%s lacks %q: %v", file, want, err)
		}
	}
	if err := rename(folder, files, "tidegate", ""); err == nil {
		t.Error("a path that cannot be fetched is taken")
	}
	if os.Getenv("TIDEGATE_RENAMED") != "" {
		run("", "build", "./...")
		run("", "test", ".")
	}
}
