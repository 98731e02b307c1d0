package main_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostWallNames bounds the names by which the Server reaches the machine: functions, methods, types and values. Fewer
// names mean that less must be known on both sides. Fields of plain values do not count.
const mostWallNames = 56

// sources parses the files of a package without its tests.
func sources(t *testing.T, folder string) []*ast.File {
	t.Helper()
	return parsed(t, token.NewFileSet(), folder)
}

func parsed(t *testing.T, set *token.FileSet, folder string) []*ast.File {
	t.Helper()
	found, err := build.ImportDir(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []*ast.File
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(folder, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file)
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

// TestWall counts the names by which the Server reaches the machine in all its rooms, as the compiler sees them. Each
// has a sentence. The compiler keeps the others from it.
func TestWall(t *testing.T) {
	var sentences []*ast.File
	for _, room := range []string{"", "/admission", "/recording", "/saved"} {
		sentences = append(sentences, sources(t, machine+room)...)
	}
	documented, reached := exported(sentences), reachedNames(t, "proxy", module+"/"+machine)
	for _, name := range reached {
		if _, method, ok := strings.Cut(name, "."); strings.TrimSpace(documented[name]) == "" &&
			(!ok || strings.TrimSpace(documented["."+method]) == "") {
			t.Errorf("%s has no sentence", name)
		}
	}
	t.Logf("%d names: %s", len(reached), strings.Join(reached, " "))
	if len(reached) > mostWallNames || len(reached) < 20 {
		t.Errorf("the Server reaches %d names of the machine, want at most %d", len(reached), mostWallNames)
	}
}

// mostInCycle bounds the files of the machine that all reach each other by names.
const mostInCycle = 26

// TestMachineCycle holds a line through the machine: relay.go and the parts that it is made of do not reach what a
// Relay does, which are its methods in other files. So most files are in no cycle with most others.
func TestMachineCycle(t *testing.T) {
	set := token.NewFileSet()
	info := checked(t, set, machine)
	acts := make(map[string]string)
	for name, o := range info.Defs {
		if f, ok := o.(*types.Func); ok && strings.HasPrefix(nameOf(f), "Relay.") {
			acts[filepath.Base(set.Position(name.Pos()).Filename)] = f.Name()
		}
	}
	reached := reachedFiles(set, info)
	cycle := largestCycle(reached)
	t.Logf("%d of %d files in the largest cycle", cycle, len(reached))
	if cycle > mostInCycle || cycle < 2 || len(acts) < 20 {
		t.Errorf("%d files in a cycle, want at most %d; %d files have methods", cycle, mostInCycle, len(acts))
	}
	for part := range reached["relay.go"] {
		if act := acts[part]; act != "" && part != "relay.go" {
			t.Errorf("relay.go reaches %s, which has Relay.%s", part, act)
		}
	}
}

// TestOtherCycles holds the same line in the next largest rooms: what all their files need stands in files that need
// none of them.
func TestOtherCycles(t *testing.T) {
	for folder, most := range map[string]int{"internal/netio": 12, "internal/config": 15, "internal/fleet": 6} {
		set := token.NewFileSet()
		reached := reachedFiles(set, checked(t, set, folder))
		if cycle := largestCycle(reached); cycle > most || cycle < 2 {
			t.Errorf("%s: %d of %d files in a cycle, want at most %d", folder, cycle, len(reached), most)
		}
	}
}

// reachedFiles returns the files of a package that each of its files reaches by names, except by those of fields.
func reachedFiles(set *token.FileSet, info *types.Info) map[string]map[string]bool {
	file := func(at token.Pos) string { return filepath.Base(set.Position(at).Filename) }
	uses, in := make(map[string]map[string]bool), make(map[*types.Package]bool)
	for name, o := range info.Defs {
		uses[file(name.Pos())] = make(map[string]bool)
		if o != nil {
			in[o.Pkg()] = true
		}
	}
	for name, o := range info.Uses {
		if v, ok := o.(*types.Var); in[o.Pkg()] && (!ok || !v.IsField()) {
			uses[file(name.Pos())][file(o.Pos())] = true
		}
	}
	reached := make(map[string]map[string]bool)
	for from := range uses {
		reached[from] = make(map[string]bool)
		reach(uses, from, reached[from])
	}
	return reached
}

// largestCycle returns the number of files in the largest cycle.
func largestCycle(reached map[string]map[string]bool) (most int) {
	for from := range reached {
		both := 0
		for to := range reached[from] {
			if reached[to][from] {
				both++
			}
		}
		most = max(most, both)
	}
	return most
}

// reach adds the files to a set that one reaches.
func reach(uses map[string]map[string]bool, from string, to map[string]bool) {
	for next := range uses[from] {
		if !to[next] {
			to[next] = true
			reach(uses, next, to)
		}
	}
}

// reachedNames returns the names of functions, methods, types and values by which a package reaches others, in order:
// all names whose package's path begins with into. A method has its type's name and a dot before its own.
func reachedNames(t *testing.T, folder, into string) []string {
	t.Helper()
	names := make(map[string]bool)
	for _, used := range checked(t, token.NewFileSet(), folder).Uses {
		if v, ok := used.(*types.Var); used.Pkg() == nil || !strings.HasPrefix(used.Pkg().Path(), into) || ok && v.IsField() {
			continue
		}
		names[nameOf(used)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// nameOf returns the name of an object, and before that of a method its type's name and a dot.
func nameOf(o types.Object) string {
	f, ok := o.(*types.Func)
	if !ok || f.Signature().Recv() == nil {
		return o.Name()
	}
	of := f.Signature().Recv().Type()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	return types.TypeString(of, func(*types.Package) string { return "" }) + "." + o.Name()
}

// checked returns what the names of a package's files mean to the compiler.
func checked(t *testing.T, set *token.FileSet, folder string) *types.Info {
	t.Helper()
	list, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "./"+folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := make(map[string]string)
	for line := range strings.Lines(string(list)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		compiled[pkg] = file
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
	checker := types.Config{Importer: importer.ForCompiler(set, "gc", func(pkg string) (io.ReadCloser, error) {
		return os.Open(compiled[pkg])
	})}
	if _, err := checker.Check(folder, set, parsed(t, set, folder), info); err != nil {
		t.Fatal(err)
	}
	return info
}
