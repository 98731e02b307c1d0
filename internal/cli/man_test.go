package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestManualPages checks that every command has a page with all sections, and that mandoc finds no fault in any page.
func TestManualPages(t *testing.T) {
	folder := t.TempDir()
	if code, _, stderr := tidegate(t, "man", "--all", folder); code != 0 {
		t.Fatalf("man --all: code %d, says %s", code, stderr)
	}
	pages := []string{"man5/tidegate.toml.5", "man1/tidegate.1"}
	for _, c := range newApp(nil).Commands {
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
		lintPage(t, file)
	}
	if files, err := filepath.Glob(filepath.Join(folder, "*", "*")); err != nil || len(files) != len(pages) {
		t.Errorf("%d pages, want %d, %v", len(files), len(pages), err)
	}
}

// lintPage checks a page by mandoc, where it is installed. A program of a test knows no commit, and so no date.
func lintPage(t *testing.T, file string) {
	t.Helper()
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		return
	}
	out, _ := exec.Command(mandoc, "-T", "lint", "-W", "style", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") {
			t.Error(line)
		}
	}
}

// TestManualHasEveryKey compares tidegate.toml(5) with the example configuration that it comes from.
func TestManualHasEveryKey(t *testing.T) {
	code, page, stderr := tidegate(t, "man", "tidegate.toml")
	keys := regexp.MustCompile(`(?m)^(?:#   )?(?:# )?([a-z0-9_]+) = `).FindAllStringSubmatch(string(exampleConfig), -1)
	if code != 0 || len(keys) < 150 {
		t.Fatalf("code %d, %d keys, %s", code, len(keys), stderr)
	}
	items := regexp.MustCompile(`(?m)^\.TP\n\\fB([a-z0-9_]+) = .*\n(.+)`).FindAllStringSubmatch(page, -1)
	for i, key := range keys {
		if i >= len(items) || items[i][1] != key[1] || items[i][2] == "No further explanation." {
			t.Fatalf("item %d is not %s, or explains nothing", i, key[1])
		}
	}
}

func TestManualOfAnUnknownCommand(t *testing.T) {
	if code, _, stderr := tidegate(t, "man", "rum"); code != 2 || !strings.Contains(stderr, `"rum"`) {
		t.Errorf("code %d, says %s", code, stderr)
	}
}
