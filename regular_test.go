package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// opens matches functions that open any file, and wait for the writer of a pipe.
var opens = regexp.MustCompile(`\b(os\.(Open|OpenFile|ReadFile)|tls\.LoadX509KeyPair)\(.*`)

// mayOpen are the calls for files that no operator names, or that regular.Check has seen.
var mayOpen = []string{
	"os.ReadFile(podNamespace)", "tls.LoadX509KeyPair(v.Path(f.Certificate)", "os.OpenFile(path, os.O_APPEND",
}

// TestFilesAreRegular finds files of a running proxy that package regular does not open. A pipe would stop a reload, or
// the end of the process.
func TestFilesAreRegular(t *testing.T) {
	seen := 0
	for _, folder := range []string{"config", "setup", "discovery", "banfile", "daemon", "filter", "fleet", "filewatch"} {
		files, err := filepath.Glob("internal/" + folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
		calls:
			for _, call := range opens.FindAllString(string(text), -1) {
				for _, known := range mayOpen {
					if strings.HasPrefix(call, known) {
						seen++
						continue calls
					}
				}
				t.Errorf("%s: %s: use package regular", file, call)
			}
		}
	}
	if seen != len(mayOpen) {
		t.Errorf("%d known calls, want %d", seen, len(mayOpen))
	}
}
