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
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module     = "tidegate"
	root       = "main" // what the table calls the module's root package
	anyPackage = "*"    // in the table: every package
	unix       = "golang.org/x/sys/unix"
)

// may lists, for each package, the packages of this module it may import; docs/architecture.md explains the layers.
var may = map[string][]string{
	root:                    {anyPackage},
	"admin":                 {"capture", "codec", "internal/prefixes", "proxy", "ratelimit", "upstream"},
	"bench":                 {anyPackage},
	"capture":               {"proxy"},
	"codec":                 {},
	"codec/codectest":       {"codec", "internal/allocs", "internal/simnet"},
	"codec/internal/events": {"codec"},
	"codec/raknet":          {"codec", "codec/internal/events", "internal/words"},
	"codec/riptide":         {"codec", "codec/internal/events", "internal/words"},
	"codec/rtype":           {"codec", "codec/internal/events", "internal/words"},
	"codec/rudp":            {"codec", "codec/internal/events", "internal/words"},
	"config":                {"internal/prefixes"},
	"decode":                {"codec", "codec/raknet", "codec/riptide", "codec/rtype", "codec/rudp", "internal/words"},
	"demo":                  {anyPackage},
	"filter":                {"codec", "ratelimit"},
	"discovery":             {"internal/filewatch", "upstream"},
	"internal/allocs":       {},
	"internal/await":        {},
	"internal/filewatch":    {},
	"internal/banfile":      {"internal/prefixes", "ratelimit"},
	"internal/geofile":      {},
	"internal/netlab":       {},
	"internal/prefixes":     {},
	"internal/rakserver":    {},
	"internal/link":         {"netio"},
	"internal/simnet":       {},
	"internal/words":        {},
	"interop":               {"codec", "codec/raknet", "internal/link"},
	"kernel":                {},
	"kernel/flow":           {"kernel"},
	"kernel/shield":         {"kernel"},
	"netio":                 {},
	"proxy":                 {"codec", "filter", "kernel/flow", "kernel/shield", "netio", "proxyproto", "ratelimit", "session", "upstream"},
	"proxyproto":            {},
	"packaging":             {},
	"ratelimit":             {},
	"session":               {"codec"},
	"setup": {
		"codec", "codec/raknet", "codec/riptide", "codec/rtype", "codec/rudp", "config", "filter", "internal/prefixes", "netio", "proxy",
		"ratelimit", "session", "upstream",
	},
	"upstream": {"codec"},
}

// clocks are the functions of package time that read or wait for the clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// TestLayers holds every package to the table, the kernel to netio, and codecs to bytes and time as arguments.
func TestLayers(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || len(name) > 1 && name[0] == '.'):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, fault := range layerFaults(packageOf(file), parsed) {
			t.Errorf("%s: %s", file, fault)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// packageOf is the name in the table of the package that a file belongs to.
func packageOf(file string) string {
	if dir := path.Dir(filepath.ToSlash(file)); dir != "." {
		return dir
	}
	return root
}

// layerFaults says what a source file of a package does that its layer may not.
func layerFaults(pkg string, file *ast.File) []string {
	allowed, known := may[pkg]
	if !known {
		return []string{fmt.Sprintf("package %s is unknown: add it to the table", pkg)}
	}
	var faults []string
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		own, isOwn := strings.CutPrefix(imported, module+"/")
		switch {
		case isOwn && !slices.Contains(allowed, own) && !slices.Contains(allowed, anyPackage):
			faults = append(faults, fmt.Sprintf("%s imports %s; it may import only %q", pkg, own, allowed))
		case imported == unix && pkg != "netio" && !strings.HasPrefix(pkg, "kernel/") && pkg != "bench":
			faults = append(faults, fmt.Sprintf("%s imports %s; only netio, kernel/ and bench may", pkg, unix))
		case isCodec(pkg) && isWorldly(imported):
			faults = append(faults, fmt.Sprintf("%s imports %s; a codec has no I/O and no locks", pkg, imported))
		}
	}
	if isCodec(pkg) {
		faults = append(faults, codeFaults(pkg, file)...)
	}
	return faults
}

func isCodec(pkg string) bool { return pkg == "codec" || strings.HasPrefix(pkg, "codec/") }

// isWorldly reports whether a package reaches outside a codec: the network, the system, other goroutines.
func isWorldly(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return slices.Contains([]string{"net", "os", "sync", "syscall"}, first) && imported != "net/netip" && imported != "sync/atomic"
}

// codeFaults finds clocks and goroutines.
func codeFaults(pkg string, file *ast.File) []string {
	var faults []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			faults = append(faults, fmt.Sprintf("%s starts a goroutine; a codec has none", pkg))
		case *ast.SelectorExpr:
			x, ok := node.X.(*ast.Ident)
			if ok && x.Name == "time" && slices.Contains(clocks, node.Sel.Name) {
				faults = append(faults, fmt.Sprintf("%s calls time.%s; a codec's time is an argument", pkg, node.Sel.Name))
			}
		}
		return true
	})
	return faults
}

// TestArchitectureNamesEveryPackage: who looks for one finds it among the folders.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, folders, _ := strings.Cut(string(text), "\n## Folders\n")
	folders, _, _ = strings.Cut(folders, "\n## ")
	for pkg := range may {
		if pkg != root && !strings.Contains(folders, "`"+pkg+"`") && !strings.Contains(folders, "`"+pkg+"/`") {
			t.Errorf("docs/architecture.md does not say what %s is", pkg)
		}
	}
}

// TestLayerFaults shows that TestLayers can fail.
func TestLayerFaults(t *testing.T) {
	for _, test := range []struct{ pkg, source, want string }{
		{"codec/raknet", `import "tidegate/codec"`, ""},
		{"codec/raknet", `import "tidegate/session"`, `imports session; it may import only ["codec" "codec/internal/events" "internal/words"]`},
		{"config", `import "tidegate/codec"`, "imports codec"},
		{"unheard/of", ``, "add it to the table"},
		{"main", `import "tidegate/config"`, ""},
		{"main", `import "golang.org/x/sys/unix"`, "only netio, kernel/ and bench may"},
		{"netio", `import ("golang.org/x/sys/unix"; "net")`, ""},
		{"codec", `import ("net/netip"; "time"); var t time.Time`, ""},
		{"codec", `import "net"`, "imports net;"},
		{"codec/rudp", `import "sync"`, "imports sync;"},
		{"codec/rudp", `import "os"`, "imports os;"},
		{"codec/rudp", `import "time"; var t = time.Now()`, "calls time.Now"},
		{"codec/rudp", `import "time"; func f(t time.Time) { <-time.After(0) }`, "calls time.After"},
		{"codec/rudp", `func f() { go f() }`, "starts a goroutine"},
		{"proxy", `import "time"; var t = time.Now()`, ""},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+test.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(layerFaults(test.pkg, file), "\n")
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s with %s: %q, want %q", test.pkg, test.source, got, test.want)
		}
	}
}
