package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// manualLine finds a command line in a page: at the start of a line of code, or in backticks.
var manualLine = regexp.MustCompile("(?m)(?:^|`|^\\./|^\\$ )tidegate ([a-z][^`|#\n]*)")

// TestManualCommandsExist checks that each command line of the documentation names commands and flags of the program.
func TestManualCommandsExist(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	lines := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range manualLine.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(found[1], " && ")
			if line == "is running" || line == "failed" { // log messages
				continue
			}
			lines++
			if fault := unknownWord(App(nil).Commands, strings.Fields(line)); fault != "" {
				t.Errorf("%s: tidegate %s: %s is unknown", page, line, fault)
			}
		}
	}
	if lines < 50 {
		t.Errorf("only %d command lines were found", lines)
	}
	for line, want := range map[string]string{
		"sessions show 4f": "", "sessions shwo 4f": "shwo", "demo --loss 5%": "", "demo --lost 5%": "--lost", "x": "x",
	} {
		if got := unknownWord(App(nil).Commands, strings.Fields(line)); got != want {
			t.Errorf("%q: %q is unknown, want %q", line, got, want)
		}
	}
}

// unknownWord returns the first word of a command line that is neither a command, nor one of its flags, nor an
// argument.
func unknownWord(commands []*cli.Command, words []string) string {
	var command *cli.Command
	for _, word := range words {
		switch {
		case command == nil || len(command.Subcommands) > 0:
			if command != nil && !regexp.MustCompile(`^[a-z]`).MatchString(word) {
				return "" // a heading for all subcommands
			}
			command = named(commands, strings.Trim(word, ",.;:"))
			if command == nil {
				return word
			}
			commands = command.Subcommands
		case strings.HasPrefix(word, "-") && word != "-":
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			isFlag := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
			if name != "help" && !slices.ContainsFunc(command.Flags, isFlag) {
				return word
			}
		}
	}
	return ""
}
