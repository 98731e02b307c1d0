package relay

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var fileName = regexp.MustCompile(`[a-z_]+\.go`)

// sourceFiles returns the files of a package, without its documentation and its tests.
func sourceFiles(t *testing.T, folder string) []string {
	all, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range all {
		all[i] = filepath.Base(file)
	}
	return slices.DeleteFunc(all, func(file string) bool {
		return file == "doc.go" || strings.HasSuffix(file, "_test.go")
	})
}

// TestMapOfFiles asserts that the documentation of this package, and of each one below with such a map, names each file
// once, and no other file.
func TestMapOfFiles(t *testing.T) {
	for _, folder := range []string{".", "admission", "recording"} {
		text, err := os.ReadFile(filepath.Join(folder, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, files, _ := strings.Cut(string(text), "// # Files\n")
		named := fileName.FindAllString(files, -1)
		for _, file := range sourceFiles(t, folder) {
			if i := slices.Index(named, file); i >= 0 {
				named = slices.Delete(named, i, i+1)
			} else {
				t.Errorf("%s/doc.go does not say what %s is for", folder, file)
			}
		}
		if len(named) > 0 {
			t.Errorf("%s/doc.go names what is not there, or twice: %v", folder, named)
		}
	}
}

// TestPartsKnowNoRelay holds the files that doc.go calls free of the Relay to that.
func TestPartsKnowNoRelay(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, parts, found := strings.Cut(string(text), "They know no Relay:")
	parts, _, ended := strings.Cut(parts, "Values of the settings")
	if !found || !ended {
		t.Fatal("doc.go lists no parts")
	}
	for _, file := range fileName.FindAllString(parts, -1) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if star, ok := n.(*ast.StarExpr); ok {
				if name, ok := star.X.(*ast.Ident); ok && name.Name == "Relay" {
					t.Errorf("%s uses the Relay; doc.go says that it knows none", file)
				}
			}
			return true
		})
	}
}
