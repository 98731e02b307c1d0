package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listens matches the functions of other modules that open a door: a socket that others can send to.
var listens = regexp.MustCompile(
	`^(Listen(UDP|TCP|Packet|Unix|Unixgram|MulticastUDP|Config|AndServe.*)?|Bind|Socketpair|NewServer)$`)

// inside are folders whose sockets are for tests and measurements.
var inside = []string{"interop/", "internal/testkit/", "tools/", "packaging/"}

// TestEveryDoorIsListed finds each file that listens, and compares them with the table "What listens" of
// docs/security/limits.md, which has the bound of each.
func TestEveryDoorIsListed(t *testing.T) {
	text, err := os.ReadFile("docs/security/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## What listens\n")
	if !found {
		t.Fatal("docs/security/limits.md lacks the section")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var listed []string
	for _, row := range strings.Split(table, "\n") {
		if cells := strings.Split(row, "|"); len(cells) == 6 && !strings.HasPrefix(row, "| ---") {
			listed = append(listed, codeNames(cells[4])...)
		}
	}
	doors := make(map[string]bool)
	err = filepath.WalkDir(".", func(file string, entry os.DirEntry, err error) error {
		file = filepath.ToSlash(file)
		own := func(folder string) bool { return strings.HasPrefix(file, folder) }
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") ||
			slices.ContainsFunc(inside, own) {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err == nil && isDoor(parsed) {
			doors[file] = true
		}
		return err
	})
	if err != nil || len(doors) < 5 {
		t.Fatal(len(doors), err)
	}
	for file := range doors {
		if !slices.Contains(listed, file) {
			t.Errorf("%s listens: say in docs/security/limits.md who can reach it, and what bounds them", file)
		}
	}
	for _, file := range listed {
		if !doors[file] {
			t.Errorf("docs/security/limits.md: %s does not listen", file)
		}
	}
}

// isDoor reports whether a file calls a function of another module that listens.
func isDoor(file *ast.File) (found bool) {
	foreign := make(map[string]bool)
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := strings.TrimPrefix(path.Base(imported), "go-")
		if spec.Name != nil {
			name = spec.Name.Name
		}
		foreign[name] = !strings.HasPrefix(imported, module+"/")
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if s, ok := node.(*ast.SelectorExpr); ok {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && foreign[x.Name] && listens.MatchString(s.Sel.Name)
		}
		return !found
	})
	return found
}

// TestIsDoor shows that TestEveryDoorIsListed can fail.
func TestIsDoor(t *testing.T) {
	for source, want := range map[string]bool{
		`import "net"; var l, _ = net.Listen("tcp", ":1")`:             true,
		`import "net"; var c = new(net.ListenConfig)`:                  true,
		`import "golang.org/x/sys/unix"; var _ = unix.Bind(0, nil)`:    true,
		`import "github.com/nats-io/server"; var _ = server.NewServer`: true,
		`import "tidegate/proxy"; var _ = proxy.Listen`:                false,
		`import "net"; var l net.Listener`:                             false,
		`import "net"; var c, _ = net.Dial("tcp", ":1")`:               false,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", "package p; "+source, parser.SkipObjectResolution)
		if err != nil || isDoor(parsed) != want {
			t.Errorf("%s: a door %v, %v", source, !want, err)
		}
	}
}
