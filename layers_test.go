package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module     = "tidegate"
	root       = "main.go" // the table's name of the module's root package
	anyPackage = "all"     // in mayImport: every package
	unix       = "golang.org/x/sys/unix"
)

// layers lists, for each package of the table "Folders" of docs/architecture.md, the packages of this module that it
// may import, out of mayImport.
func layers(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, folders, _ := strings.Cut(string(text), "\n## Folders\n")
	folders, _, _ = strings.Cut(folders, "\n## ")
	table := make(map[string][]string)
	for _, row := range strings.Split(folders, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || strings.HasPrefix(row, "| ---") {
			continue
		}
		for _, pkg := range codeNames(cells[1]) {
			table[pkg] = strings.Fields(mayImport[pkg])
		}
	}
	for pkg := range mayImport {
		if table[pkg] == nil {
			t.Errorf("docs/architecture.md does not say what %s holds", pkg)
		}
	}
	return table
}

var codeName = regexp.MustCompile("`([^`]+)`")

// codeNames returns the names in backticks of a table's cell.
func codeNames(cell string) []string {
	var names []string
	for _, found := range codeName.FindAllStringSubmatch(cell, -1) {
		names = append(names, strings.TrimSuffix(found[1], "/"))
	}
	return names
}

// covers reports whether a name in mayImport stands for a package.
func covers(name, pkg string) bool {
	folder, below := strings.CutSuffix(name, "/*")
	return name == pkg || name == anyPackage || below && strings.HasPrefix(pkg, folder+"/")
}

// clocks are the functions of package time that read or wait for the clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// TestLayers holds every package to mayImport, system calls to a few packages, and codecs to
// bytes and time as arguments.
func TestLayers(t *testing.T) {
	table, seen := layers(t), make(map[string]bool)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || len(name) > 1 && name[0] == '.' || isOtherModule(file)):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		seen[packageOf(file)] = true
		for _, fault := range layerFaults(table, packageOf(file), parsed) {
			t.Errorf("%s: %s", file, fault)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range table {
		if !seen[pkg] && pkg != "packaging" && pkg != "interop" { // these have tests only
			t.Errorf("docs/architecture.md lists %s, which has no code", pkg)
		}
	}
}

// isOtherModule reports whether a directory holds a Go module of its own.
func isOtherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return dir != "." && err == nil
}

// packageOf returns the table's name of the package that a file belongs to.
func packageOf(file string) string {
	if dir := path.Dir(filepath.ToSlash(file)); dir != "." {
		return dir
	}
	return root
}

// mayCallKernel lists the packages that make system calls of their own.
var mayCallKernel = []string{
	"internal/netio", "internal/daemon", "internal/door", "internal/module", "internal/kernel/*",
}

// layerFaults returns what a source file of a package does that the table or the rules above forbid.
func layerFaults(table map[string][]string, pkg string, file *ast.File) []string {
	allowed, known := table[pkg]
	if !known {
		return []string{fmt.Sprintf("package %s is unknown: add it to the table of folders in docs/architecture.md", pkg)}
	}
	var faults []string
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		own, isOwn := strings.CutPrefix(imported, module+"/")
		isAllowed := func(name string) bool { return covers(name, own) }
		isPackage := func(name string) bool { return covers(name, pkg) }
		switch {
		case isOwn && !slices.ContainsFunc(allowed, isAllowed):
			faults = append(faults,
				fmt.Sprintf("%s imports %s; it may import only %q (layers_table_test.go)", pkg, own, allowed))
		case imported == unix && !slices.ContainsFunc(mayCallKernel, isPackage):
			faults = append(faults, fmt.Sprintf("%s imports %s; only %q may", pkg, unix, mayCallKernel))
		case isCodec(pkg) && isWorldly(imported):
			faults = append(faults, fmt.Sprintf("%s imports %s; a codec has no I/O and no locks", pkg, imported))
		case isMachine(pkg) && imported != "sync" && (isWorldly(imported) || imported == "context"):
			faults = append(faults, fmt.Sprintf("%s imports %s; the machine has no I/O", pkg, imported))
		}
	}
	if isCodec(pkg) || isMachine(pkg) {
		faults = append(faults, codeFaults(pkg, file)...)
	}
	return faults
}

// machine is the package of the Relay. It may have locks, as packages below may: loops share some tables.
const machine = "proxy/relay"

func isMachine(pkg string) bool { return pkg == machine || strings.HasPrefix(pkg, machine+"/") }

// driver is the package that gives codecs their sockets and a clock, for Go programs.
const driver = "codec/endpoint"

func isCodec(pkg string) bool {
	return pkg == "codec" || strings.HasPrefix(pkg, "codec/") && pkg != driver
}

// isWorldly reports whether a package reaches outside a codec: the network, the system, other goroutines.
func isWorldly(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	isPure := imported == "net/netip" || imported == "sync/atomic"
	return slices.Contains([]string{"net", "os", "sync", "syscall"}, first) && !isPure
}

// codeFaults finds clocks and goroutines.
func codeFaults(pkg string, file *ast.File) []string {
	var faults []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			faults = append(faults, fmt.Sprintf("%s starts a goroutine; a codec or the machine has none", pkg))
		case *ast.SelectorExpr:
			x, ok := node.X.(*ast.Ident)
			if ok && x.Name == "time" && slices.Contains(clocks, node.Sel.Name) {
				faults = append(faults, fmt.Sprintf("%s calls time.%s; here the time is an argument", pkg, node.Sel.Name))
			}
		}
		return true
	})
	return faults
}

// TestLayerFaults shows that TestLayers can fail.
func TestLayerFaults(t *testing.T) {
	table := layers(t)
	for _, test := range []struct{ pkg, source, want string }{
		{"codec/raknet", `import "tidegate/codec"`, ""},
		{"codec/raknet", `import "tidegate/session"`, `imports session; it may import only ["codec" `},
		{"internal/config", `import "tidegate/proxy"`, "imports proxy"},
		{"unheard/of", ``, "add it to the table"},
		{"internal/cli", `import "tidegate/internal/config"`, ""},
		{"internal/cli", `import "golang.org/x/sys/unix"`, "may"},
		{"internal/netio", `import ("golang.org/x/sys/unix"; "net")`, ""},
		{"codec", `import ("net/netip"; "time"); var t time.Time`, ""},
		{"codec", `import "net"`, "imports net;"},
		{"codec/rudp", `import "sync"`, "imports sync;"},
		{"codec/rudp", `import "os"`, "imports os;"},
		{"codec/rudp", `import "time"; var t = time.Now()`, "calls time.Now"},
		{"codec/rudp", `import "time"; func f(t time.Time) { <-time.After(0) }`, "calls time.After"},
		{"codec/rudp", `func f() { go f() }`, "starts a goroutine"},
		{driver, `import ("net"; "time"); var t = time.Now()`, ""},
		{driver, `import "tidegate/proxy"`, "imports proxy;"},
		{"proxy", `import "time"; var t = time.Now()`, ""},
		{machine, `import "time"; var t = time.Now()`, "calls time.Now"},
		{machine, `func f() { go f() }`, "starts a goroutine"},
		{machine, `import "context"`, "imports context;"},
		{machine, `import "os"`, "imports os;"},
		{machine, `import "sync"`, ""},
		{machine, `import "tidegate/proxy"`, "imports proxy;"},
		{machine + "/admission", `import "time"; var t = time.Now()`, "calls time.Now"},
		{machine + "/admission", `import "tidegate/proxy/relay"`, "imports proxy/relay;"},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+test.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(layerFaults(table, test.pkg, file), "\n")
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s with %s: %q, want %q", test.pkg, test.source, got, test.want)
		}
	}
}
