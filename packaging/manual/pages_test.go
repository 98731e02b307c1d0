package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/cli"
)

// TestManualPages checks that every command has a page with all sections, and that mandoc finds no fault in any page.
func TestManualPages(t *testing.T) {
	folder, app := t.TempDir(), cli.App(exampleConfig(t))
	if err := run([]string{folder}); err != nil {
		t.Fatal(err)
	}
	pages := []string{"man5/tidegate.toml.5", "man1/tidegate.1"}
	for _, c := range app.Commands {
		if !c.Hidden {
			pages = append(pages, fmt.Sprintf("man1/tidegate-%s.1", c.Name))
		}
	}
	for _, page := range pages {
		file := filepath.Join(folder, page)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		for _, section := range []string{"NAME", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"} {
			if !strings.Contains(text, "\n.SH \""+section+"\"\n") && page+section != pages[0]+"EXIT STATUS" {
				t.Errorf("%s has no section %s", page, section)
			}
		}
		lintPage(t, text)
	}
	if files, err := filepath.Glob(filepath.Join(folder, "*", "*")); err != nil || len(files) != len(pages) {
		t.Errorf("%d pages, want %d, %v", len(files), len(pages), err)
	}
}

// exampleConfig returns config.example.toml, and makes its folder the current one.
func exampleConfig(t *testing.T) []byte {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	text, err := os.ReadFile("config.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestManualHasEveryKey compares tidegate.toml(5) with the example configuration that it comes from.
func TestManualHasEveryKey(t *testing.T) {
	text := string(exampleConfig(t))
	page := configurationPage(cli.App(nil), text).text
	keys := regexp.MustCompile(`(?m)^(?:#   )?(?:# )?([a-z0-9_]+) = `).FindAllStringSubmatch(text, -1)
	if len(keys) < 150 {
		t.Fatalf("%d keys", len(keys))
	}
	items := regexp.MustCompile(`(?m)^\.TP\n\\fB([a-z0-9_]+) = .*\n(.+)`).FindAllStringSubmatch(page, -1)
	for i, key := range keys {
		if i >= len(items) || items[i][1] != key[1] || items[i][2] == "No further explanation." {
			t.Fatalf("item %d is not %s, or explains nothing", i, key[1])
		}
	}
}
