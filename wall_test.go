package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostWallNames bounds the names by which the Server reaches the machine: functions, methods and types. Fewer names
// mean that less must be known on both sides. Fields of plain values do not count.
const mostWallNames = 134

// sources parses the files of a package without its tests.
func sources(t *testing.T, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsed)
	}
	return all
}

// exported returns the exported names of a package with their documentation. A method has a dot before its name.
func exported(files []*ast.File) map[string]string {
	names := make(map[string]string)
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if name, ok := of.(*ast.Ident); !ok || !name.IsExported() {
						continue
					}
					name = "." + name
				}
				names[name] = d.Doc.Text()
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = d.Doc.Text() + s.Doc.Text()
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = d.Doc.Text() + s.Doc.Text() + s.Comment.Text()
						}
					}
				}
			}
		}
	}
	return names
}

// TestWall counts the names by which the Server reaches the machine in all its rooms. Each has a sentence. The compiler
// keeps the others from it. A method counts if the Server selects its name, so a few may count that belong to something
// else.
func TestWall(t *testing.T) {
	rooms := []string{"relay", "admission", "recording", "saved"}
	files := sources(t, "proxy/relay")
	for _, room := range rooms[1:] {
		files = append(files, sources(t, "proxy/relay/"+room)...)
	}
	names, reached := exported(files), make(map[string]bool)
	for _, file := range sources(t, "proxy") {
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !s.Sel.IsExported() {
				return true
			}
			name := "." + s.Sel.Name
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(rooms, x.Name) {
				name = s.Sel.Name
			}
			if _, ok := names[name]; ok {
				reached[name] = true
			}
			return true
		})
	}
	var all []string
	for name := range reached {
		if all = append(all, name); strings.TrimSpace(names[name]) == "" {
			t.Errorf("%s has no sentence", name)
		}
	}
	slices.Sort(all)
	t.Logf("%d names: %s", len(all), strings.Join(all, " "))
	if len(all) > mostWallNames || len(all) < 20 {
		t.Errorf("the Server reaches %d names of the machine, want at most %d", len(all), mostWallNames)
	}
}
