package proxy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var fileName = regexp.MustCompile(`[a-z_]+\.go`)

// sourceFiles returns the files of the package, without its documentation and its tests.
func sourceFiles(t *testing.T) []string {
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(file string) bool {
		return file == "doc.go" || strings.HasSuffix(file, "_test.go")
	})
}

// TestMapOfFiles asserts that the package's documentation names each of its files once, and no other file.
func TestMapOfFiles(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, files, _ := strings.Cut(string(text), "// # Files\n")
	named := fileName.FindAllString(files, -1)
	for _, file := range sourceFiles(t) {
		if i := slices.Index(named, file); i >= 0 {
			named = slices.Delete(named, i, i+1)
		} else {
			t.Errorf("doc.go does not say what %s is for", file)
		}
	}
	if len(named) > 0 {
		t.Errorf("doc.go names what is not there, or twice: %v", named)
	}
}
