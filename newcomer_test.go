package main_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// maxNewcomerLines bounds the lines that a new contributor reads to follow a datagram through the program.
const maxNewcomerLines = 1900

// readingItem finds an item of the reading list. The files of an item come before its first colon.
var readingItem = regexp.MustCompile(`(?m)^\d+\. ([^:]*):`)

// TestNewcomerPath counts the lines of the files that docs/architecture.md lists in "What to read, in order".
func TestNewcomerPath(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, reading, _ := strings.Cut(string(page), "\n## What to read, in order\n")
	reading, _, ok := strings.Cut(reading, "`TestNewcomerPath`")
	if !ok {
		t.Fatal("docs/architecture.md does not say what to read")
	}
	lines, listed := 0, make(map[string]bool)
	for _, item := range readingItem.FindAllStringSubmatch(reading, -1) {
		for _, file := range codeNames(item[1]) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n := bytes.Count(text, []byte("\n"))
			t.Logf("%5d %s", n, file)
			lines += n
			listed[file] = true
		}
	}
	if lines > maxNewcomerLines {
		t.Errorf("%d lines to read, want at most %d", lines, maxNewcomerLines)
	}
	// Without these a reader cannot follow a datagram: the list must not get shorter by leaving them out.
	for _, file := range []string{
		"README.md", "codec/codec.go", "internal/netio/netio.go", "proxy/loop.go", "proxy/relay/relay.go",
		"proxy/relay/receive.go", "proxy/relay/turn.go",
		"proxy/relay/events.go", "proxy/relay/carry.go", "proxy/bridge/carry.go",
	} {
		if !listed[file] {
			t.Errorf("%s is not listed", file)
		}
	}
}
