package proxy

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

// sourceFiles returns the files of the package, without its documentation and its tests.
func sourceFiles(t *testing.T) []string {
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(file string) bool {
		return file == "doc.go" || strings.HasSuffix(file, "_test.go")
	})
}

// TestMapOfFiles asserts that the package's documentation names each of its files once, and no other file.
func TestMapOfFiles(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, files, _ := strings.Cut(string(text), "// # Files\n")
	named := fileName.FindAllString(files, -1)
	for _, file := range sourceFiles(t) {
		if i := slices.Index(named, file); i >= 0 {
			named = slices.Delete(named, i, i+1)
		} else {
			t.Errorf("doc.go does not say what %s is for", file)
		}
	}
	if len(named) > 0 {
		t.Errorf("doc.go names what is not there, or twice: %v", named)
	}
}

// mostRelayMethods bounds the methods of the Relay. A new concern is a part of its own, in its own file.
const mostRelayMethods = 100

// TestRelayIsSmall holds the number of the Relay's methods, and the parts that know no Relay to that.
func TestRelayIsSmall(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, parts, found := strings.Cut(string(text), "They know no Relay:")
	if !found {
		t.Fatal("doc.go lists no parts")
	}
	free := fileName.FindAllString(parts, -1)
	methods := 0
	for _, file := range sourceFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && isRelay(f.Recv.List[0].Type) {
				methods++
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && isRelay(e) && slices.Contains(free, file) {
				t.Errorf("%s uses the Relay; doc.go says that it knows none", file)
			}
			return true
		})
	}
	t.Logf("%d methods", methods)
	if methods > mostRelayMethods {
		t.Errorf("the Relay has %d methods, want at most %d: give one to a part", methods, mostRelayMethods)
	}
}

// isRelay reports whether an expression is the type *Relay.
func isRelay(e ast.Expr) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && name.Name == "Relay"
}
