package main_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/codec/codectest"
	"tidegate/internal/protocols"
)

// mentions lists the sections of the documentation that name every protocol. CONTRIBUTING.md has the steps.
var mentions = []struct{ file, section string }{
	{"README.md", "## Protocols"},
	{"docs/bridging.md", "## What a pair can promise for reliable messages"},
	{"docs/bridging.md", "## Delivery modes"},
	{"docs/bridging.md", "## Envelopes"},
	{"docs/bridging.md", "## Joining"},
	{"docs/security/new-clients.md", "### Before the game notices"},
	{"docs/security/new-clients.md", "## Proof"},
	{"docs/security/amplification.md", "## Three times"},
	{"docs/interop.md", "## Who takes part"},
}

// TestProtocolsAreWhole checks what a new codec needs beside its code: the line in the list of protocols, the
// conformance suite, a fuzz target, captures of a real peer, a page about the wire, and its place in the documentation.
func TestProtocolsAreWhole(t *testing.T) {
	folders, err := filepath.Glob("codec/*/conformance_test.go")
	if err != nil || len(folders) == 0 {
		t.Fatalf("there is no codec: %v", err)
	}
	for _, file := range folders {
		folder := filepath.ToSlash(filepath.Dir(file))
		if list := read(t, "internal/protocols/"+path.Base(folder)+".go"); !strings.Contains(list, module+"/"+folder+`"`) {
			t.Errorf("%s is not in internal/protocols", folder)
		}
		tests := testsOf(t, folder)
		for what, want := range map[string]string{
			"the conformance suite": "codectest.Run(", "a fuzz target": "func Fuzz",
		} {
			if !strings.Contains(tests, want) {
				t.Errorf("%s: its tests lack %s (%s)", folder, what, want)
			}
		}
		if len(codectest.Captures(t, os.DirFS(folder))) == 0 {
			t.Errorf("%s has no captures", folder)
		}
		wantPage(t, path.Base(folder))
	}
}

// wantPage checks the page about a codec's wire, and the places that name the protocol as the page's heading does.
func wantPage(t *testing.T, codec string) {
	t.Helper()
	page := "docs/protocols/" + codec + ".md"
	heading := strings.Fields(read(t, page))
	if len(heading) < 2 || heading[0] != "#" {
		t.Fatalf("%s has no heading", page)
	}
	name := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(heading[1]) + `([^\w-]|$)`)
	if !strings.Contains(read(t, "README.md"), "("+page+")") {
		t.Errorf("README.md has no link to %s", page)
	}
	if comments := packageComment(t, "codec/"+codec); !strings.Contains(comments, page) {
		t.Errorf("codec/%s: the comment of the package does not name %s", codec, page)
	}
	for _, m := range mentions {
		if !name.MatchString(section(t, m.file, m.section)) {
			t.Errorf("%s, %q does not name %s", m.file, m.section, heading[1])
		}
	}
}

// packageComment returns the comment above the package clause of the first file that has one.
func packageComment(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Doc != nil {
			return strings.Join(strings.Fields(parsed.Doc.Text()), " ")
		}
	}
	return ""
}

// TestProtocolNamesAreDocumented checks that the names of the configuration are where a user looks for them.
func TestProtocolNamesAreDocumented(t *testing.T) {
	for _, d := range protocols.All {
		for where, text := range map[string]string{
			"the table of README.md":           section(t, "README.md", "## Protocols"),
			"the table of listeners in docs":   section(t, "docs/configuration/routes.md", "### Protocols"),
			"a comment of config.example.toml": strings.ReplaceAll(read(t, "config.example.toml"), `"`, "`"),
		} {
			if !strings.Contains(text, "`"+d.Name+"`") {
				t.Errorf("%s is not in %s", d.Name, where)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testsOf returns the text of a folder's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(read(t, file))
	}
	return all.String()
}

// section returns a section of a page, up to the next heading of its level or above.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, file), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	for n := range len(level) - 1 {
		rest, _, _ = strings.Cut(rest, "\n"+strings.Repeat("#", n+2)+" ")
	}
	return rest
}
