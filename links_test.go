package main_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// TestLinksLead: what the Markdown files link to within the repository is there, headings included.
func TestLinksLead(t *testing.T) {
	pages := make(map[string]string) // what they say outside of code blocks, by path
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && len(file) > 1 && file[0] == '.':
			return filepath.SkipDir
		case entry.IsDir() || path.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		pages[filepath.ToSlash(file)] = codeBlock.ReplaceAllString(string(text), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for page, text := range pages {
		for _, found := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(found[1], "#")
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.FromSlash(file)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, found[1])
			} else if anchor != "" && !anchors(pages[file])[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, found[1], file)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// sourceName finds the path of a file of this repository in backticks.
var sourceName = regexp.MustCompile(
	"`((?:codec|docs|examples|internal|interop|packaging|proxy|ratelimit|session|tools)/[\\w/.-]+\\.\\w+)`")

// TestNamedFilesExist checks the paths of files that the Markdown files name in backticks. The changelog may name files
// that are gone.
func TestNamedFilesExist(t *testing.T) {
	names := 0
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && len(file) > 1 && file[0] == '.':
			return filepath.SkipDir
		case entry.IsDir() || path.Ext(file) != ".md" || file == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(file)
		for _, missing := range missingFiles(string(text), &names) {
			t.Errorf("%s names %s, which is not there", file, missing)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if names < 50 {
		t.Errorf("only %d names were found", names)
	}
	if got := missingFiles("`codec/codec.go` `proxy/gone.go` `x/gone.go`", &names); len(got) != 1 {
		t.Errorf("%q are missing, want proxy/gone.go", got)
	}
}

// missingFiles returns the named files that do not exist, and counts the names.
func missingFiles(text string, names *int) (missing []string) {
	for _, found := range sourceName.FindAllStringSubmatch(text, -1) {
		if strings.Contains(found[1], "/NAME.") { // a placeholder
			continue
		}
		*names++
		if _, err := os.Stat(filepath.FromSlash(found[1])); err != nil {
			missing = append(missing, found[1])
		}
	}
	return missing
}

var (
	logMessage  = regexp.MustCompile(`Msg\("([^"]+)"\)`)
	messageCell = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|")
)

// TestLogMessagesExist checks that the program logs each message that docs/operate/log.md explains.
func TestLogMessagesExist(t *testing.T) {
	logged := make(map[string]bool)
	for _, folder := range []string{"internal", "proxy"} {
		err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, found := range logMessage.FindAllStringSubmatch(string(text), -1) {
				logged[found[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("docs/operate/log.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "# What the log says\n")
	table, _, _ = strings.Cut(table, "\n#")
	explained := 0
	for _, row := range messageCell.FindAllStringSubmatch(table, -1) {
		for _, message := range codeNames(row[1]) {
			explained++
			if !logged[message] {
				t.Errorf("docs/operate/log.md explains the log message %q, which no code logs", message)
			}
		}
	}
	if explained < 20 {
		t.Errorf("only %d messages are explained", explained)
	}
}

// anchors are the names by which links reach the headings of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(strings.ToLower(notInSlug.ReplaceAllString(strings.TrimSpace(match[1]), "")), " ", "-")
		if found[slug] {
			slug += "-1"
		}
		found[slug] = true
	}
	return found
}

// longPage is the number of words above which a page for users needs a table of contents near its top.
const longPage = 600

// TestLongPagesHaveContents checks that a long page for users links to its own parts before it goes into them.
func TestLongPagesHaveContents(t *testing.T) {
	for _, page := range documentation(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		plain := codeBlock.ReplaceAllString(string(text), "")
		head, _, many := strings.Cut(plain, "\n## ")
		if parts := strings.Count(plain, "\n## "); !many || parts < 3 || len(strings.Fields(plain)) < longPage {
			continue
		}
		if own := strings.Count(head, "](#"); own < 3 {
			t.Errorf("%s has %d words and links to %d of its parts above the first one", page, len(strings.Fields(plain)), own)
		}
	}
}

var (
	namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]*)\(`)
)

// TestNamedTestsExist: each test that a page of docs/ names is there.
func TestNamedTestsExist(t *testing.T) {
	known, named := make(map[string]bool), make(map[string]string) // a page, by test
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		isPage := strings.HasPrefix(filepath.ToSlash(file), "docs/") && path.Ext(file) == ".md"
		if err != nil || entry.IsDir() || !isPage && !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if isPage {
			for _, found := range namedTest.FindAllStringSubmatch(string(text), -1) {
				named[found[1]] = file
			}
			return err
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			known[found[1]] = true
		}
		return err
	})
	if err != nil || len(known) < 1000 || len(named) < 40 {
		t.Fatalf("%d tests, %d named, %v", len(known), len(named), err)
	}
	for name, page := range named {
		if !known[name] {
			t.Errorf("%s: there is no %s", page, name)
		}
	}
}

// TestPictures checks that the pictures of the documentation are small and load nothing from other servers.
func TestPictures(t *testing.T) {
	pictures, err := filepath.Glob("docs/pictures/*.svg")
	if err != nil || len(pictures) < 2 {
		t.Fatal(pictures, err)
	}
	outside := regexp.MustCompile(`(?:href|src)="https?://|url\(["']?https?://|@import|<script`)
	for _, picture := range pictures {
		text, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		if found := outside.Find(text); found != nil {
			t.Errorf("%s has %s", picture, found)
		}
		if len(text) > 200_000 {
			t.Errorf("%s has %d bytes, want at most 200000", picture, len(text))
		}
	}
}

// documentation returns the pages under docs.
func documentation(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 30 {
		t.Fatalf("only %d pages", len(pages))
	}
	return pages
}
