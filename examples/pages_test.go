package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a code block of a page. Before is the text between the block before it and itself.
type block struct{ before, language, text string }

var codeBlock = regexp.MustCompile("(?ms)(.*?)^ *```(\\w*)\n(.*?)^ *```$")

// blocks returns the code blocks of a page, in order.
func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	for _, found := range codeBlock.FindAllStringSubmatch(read(t, page), -1) {
		all = append(all, block{found[1], found[2], found[3]})
	}
	return all
}

// pages returns the tutorials and recipes.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, folder := range []string{"tutorials", "recipes"} {
		found, err := filepath.Glob(filepath.Join("..", "docs", folder, "*.md"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", folder, len(found), err)
		}
		all = append(all, found...)
	}
	return all
}

// TestBlocksAreExamples checks that each block of configuration or code in tutorials and recipes is part of a tested
// file, but for the depth of its lines.
func TestBlocksAreExamples(t *testing.T) {
	var tested []string
	for _, name := range sources(t) {
		tested = append(tested, flat(read(t, name)))
	}
	checked := 0
	for _, page := range append(pages(t), "../README.md") {
		for _, b := range blocks(t, page) {
			code := slices.Contains([]string{"toml", "cpp", "csharp", "yaml", "gdscript"}, b.language)
			if !code || servers[strings.TrimSpace(b.text)] {
				continue
			}
			checked++
			if !slices.ContainsFunc(tested, func(text string) bool { return strings.Contains(text, flat(b.text)) }) {
				t.Errorf("%s: no file of examples has this block:\n%s", page, b.text)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d blocks were checked", checked)
	}
}

// servers are lines of users' own programs, which no file here has.
var servers = map[string]bool{"server.Start(7778, 50);": true}

// sources returns the examples and the files that tests compile or run.
func sources(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(name) != ".go" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// flat returns the text's lines without the spaces around them.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// TestEveryExampleHasAPage checks that each example names the page that explains it, and that the page links it.
func TestEveryExampleHasAPage(t *testing.T) {
	named := regexp.MustCompile(`docs/(?:tutorials|recipes)/[\w-]+\.md`)
	for _, name := range all(t) {
		page := named.FindString(read(t, name))
		if page == "" {
			t.Errorf("%s names no page", name)
			continue
		}
		if text := read(t, filepath.Join("..", page)); !strings.Contains(text, "examples/"+name) {
			t.Errorf("%s has no link to %s", page, name)
		}
	}
}
