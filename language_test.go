package main_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// notYetRewritten lists folders and files whose language TestLanguage does not check yet. A folder stands for the files
// directly in it, so its subfolders are listed by themselves. The list only shrinks: TestLanguage fails on an entry
// without faults.
var notYetRewritten = []string{
}

// widest is the largest number of characters in a line of Go or Markdown. A tab counts as one.
const widest = 120

// riddle finds relative clauses without a noun, which readers with another native language have to decode.
var riddle = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"whoever", "whomever", "whom", "somebody", "nobody", "whatever",
	"those that", "those who", "of what", "of whose", "what is", "who is",
}, "|") + `)\b`)

// unbreakable finds links, which may make a line longer than widest.
var unbreakable = regexp.MustCompile(`\]\(\S+\)|https?://`)

// TestLanguage holds Go comments and Markdown to plain English, and both to lines of readable length.
func TestLanguage(t *testing.T) {
	faulty := make(map[string]bool)
	files := 0
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || len(name) > 1 && name[0] == '.'):
			return filepath.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go" && path.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files++
		file = filepath.ToSlash(file)
		exempt := exemption(notYetRewritten, file)
		for _, fault := range languageFaults(t, file, string(text)) {
			faulty[exempt] = true
			if exempt == "" {
				t.Errorf("%s:%s", file, fault)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("only %d files were read", files)
	}
	for _, entry := range notYetRewritten {
		if !faulty[entry] {
			t.Errorf("%s has no faults (left): remove it from notYetRewritten", entry)
		}
	}
}

// exemption returns the entry of a list that exempts a file, or "".
func exemption(list []string, file string) string {
	for _, name := range []string{file, path.Dir(file)} {
		if slices.Contains(list, name) {
			return name
		}
	}
	return ""
}

// languageFaults returns the faults of a file, each as "line: text".
func languageFaults(t *testing.T, file, text string) []string {
	t.Helper()
	if path.Ext(file) == ".md" {
		return markdownFaults(text)
	}
	if strings.Contains(text, "// Code generated ") {
		return nil
	}
	return append(lineFaults(text), commentFaults(t, file, text)...)
}

// commentFaults finds riddles in Go comments, also across line breaks.
func commentFaults(t *testing.T, file, text string) (faults []string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		words := strings.Join(strings.Fields(group.Text()), " ")
		for _, found := range riddle.FindAllString(words, -1) {
			faults = append(faults, fmt.Sprintf("%d: %q: name the subject with a noun", set.Position(group.Pos()).Line, found))
		}
	}
	return faults
}

// lineFaults finds lines of Go that are too long.
func lineFaults(text string) (faults []string) {
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > widest && !unbreakable.MatchString(line) {
			faults = append(faults, fmt.Sprintf("%d: %d columns, want at most %d", i+1, n, widest))
		}
	}
	return faults
}

// markdownFaults finds riddles and long lines outside of code. A table's row may be long.
func markdownFaults(text string) (faults []string) {
	text = codeBlock.ReplaceAllStringFunc(text, func(block string) string {
		return strings.Repeat("\n", strings.Count(block, "\n"))
	})
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") { // a heading may ask "What is a session?"
			continue
		}
		for _, found := range riddle.FindAllString(codeSpan.ReplaceAllString(line, ""), -1) {
			faults = append(faults, fmt.Sprintf("%d: %q: name the subject with a noun", i+1, found))
		}
		n := utf8.RuneCountInString(line)
		if n > widest && !strings.HasPrefix(line, "|") && !unbreakable.MatchString(line) {
			faults = append(faults, fmt.Sprintf("%d: %d columns, want at most %d", i+1, n, widest))
		}
	}
	return faults
}

// TestLanguageFaults shows that TestLanguage can fail.
func TestLanguageFaults(t *testing.T) {
	long := strings.Repeat("long ", 24) // 120 characters
	for _, test := range []struct{ file, text, want string }{
		{"x.go", "package x\n\n// A client sends a datagram.\n", ""},
		{"x.go", "package x\n\n// F tells whoever asks.\n", `3: "whoever"`},
		{"x.go", "package x\n\nvar a = 1 // Nobody reads it\n", `3: "Nobody"`},
		{"x.go", "package x\n\n// F drops those\n// that are old.\n", `3: "those that"`},
		{"x.go", "package x\n\n// F is a count\n//\n// of whom we know.\n", `3: "whom"`},
		{"x.go", "package x\n\nvar a = \"whoever\" // a string is not a comment\n", ""},
		{"x.go", "package x\n\n//" + long[2:] + "\n", ""},
		{"x.go", "package x\n\n// " + long + "\n", "3: 123 columns"},
		{"x.go", "package x\n\nvar a = \"" + long + "\"\n", "3: 130 columns"},
		{"x.go", "package x\n\n// https://example.com/ " + long + "\n", ""},
		{"x.go", "// Code generated by x. DO NOT EDIT.\npackage x\n\n// whoever " + long + "\n", ""},
		{"x.md", "A client sends\na datagram.\n", ""},
		{"x.md", "## What is a session?\n", ""},
		{"x.md", "One\n\nThis is what is sent.\n", `3: "what is"`},
		{"x.md", "The key `nobody` and\n```\nwhoever\n" + long + "x\n```\n", ""},
		{"x.md", "```\ncode\n```\n\nThe color of whose car\n", `5: "of whose"`},
		{"x.md", long + "x\n", "1: 121 columns"},
		{"x.md", "| " + long + " |\n", ""},
		{"x.md", "| whatever |\n", `1: "whatever"`},
		{"x.md", "[link](docs/x.md) " + long + "\n", ""},
	} {
		got := strings.Join(languageFaults(t, test.file, test.text), "\n")
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s with %q: %q, want %q", test.file, test.text, got, test.want)
		}
	}
}

// TestExemption shows that an entry exempts the files directly in a folder, or one file, and nothing else.
func TestExemption(t *testing.T) {
	list := []string{"proxy", "docs/security.md"}
	for file, want := range map[string]string{
		"proxy/relay.go":         "proxy",
		"proxy/bridge/bridge.go": "",
		"docs/security.md":       "docs/security.md",
		"docs/bridging.md":       "",
		"main.go":                "",
	} {
		if got := exemption(list, file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
