// Command oss-fuzz makes a C archive of one fuzz target, for libFuzzer: oss-fuzz FOLDER TARGET ARCHIVE. OSS-Fuzz's own
// compile_native_go_fuzzer sees neither helpers in other test files nor external test packages, gives the target a
// testing package of its own, and calls the whole target for each input. This one calls it once, as go test does.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed harness.go.txt
var harness string

//go:embed testing.go.txt
var hook string // added to testing/fuzz.go

// external is the folder, below a package's, in which its external tests are compiled. Go only compiles tests that have
// other names than *_test.go for a program.
const external = "fuzzed"

func main() {
	if len(os.Args) != 4 {
		fail(errors.New("usage: oss-fuzz FOLDER TARGET ARCHIVE"))
	}
	if err := build(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oss-fuzz:", err)
	os.Exit(1)
}

// build compiles the target, with the instrumentation that libFuzzer reads.
func build(folder, target, archive string) error {
	// The program must lie in the module, and cgo wants a real folder.
	temporary, err := os.MkdirTemp("packaging/oss-fuzz", ".fuzzed")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if temporary, err = filepath.Abs(temporary); err != nil {
		return err
	}
	overlay, err := write(temporary, folder, target)
	if err != nil {
		return err
	}
	return run(nil, "build", "-overlay", overlay, "-tags", "gofuzz,libfuzzer", "-trimpath", "-buildmode", "c-archive",
		"-gcflags", "all=-d=libfuzzer", "-o", archive, temporary)
}

// listed is what go list tells of a folder.
type listed struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
	Module                    struct{ Dir string }
}

// write writes the target's program, and an overlay with what it needs.
func write(temporary, folder, target string) (overlay string, err error) {
	var l listed
	if err = run(&l, "list", "-json", "-tags", "gofuzz,libfuzzer", "./"+folder); err != nil {
		return "", err
	}
	var env struct{ GOROOT string }
	if err = run(&env, "env", "-json", "GOROOT"); err != nil {
		return "", err
	}
	replaced := make(map[string]string)
	add := func(file, text string) error {
		at := filepath.Join(temporary, fmt.Sprintf("%d.txt", len(replaced)))
		replaced[file] = at
		return os.WriteFile(at, []byte(text), 0o600)
	}
	isExternal, err := l.compile(target, add)
	if err != nil {
		return "", err
	}
	fuzz := filepath.Join(env.GOROOT, "src/testing/fuzz.go")
	source, err := os.ReadFile(fuzz)
	if err != nil {
		return "", err
	}
	const begin = "func (f *F) Fuzz(ff any) {\n"
	if !bytes.Contains(source, []byte(begin)) {
		return "", fmt.Errorf("%s has no %q", fuzz, begin)
	}
	hooked := strings.Replace(string(source), begin, begin+"\tfuzzed = ff\n\tif ff != nil {\n\t\treturn\n\t}\n", 1) + hook
	if err = add(fuzz, hooked); err != nil {
		return "", err
	}
	imported := l.ImportPath
	if isExternal {
		imported += "/" + external
	}
	var text bytes.Buffer
	err = template.Must(template.New("").Parse(harness)).Execute(&text, map[string]string{
		"Import": imported, "Target": target, "Folder": folder, "Root": l.Module.Dir,
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(temporary, "main.go"), text.Bytes(), 0o600)
	}
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(temporary, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// compile adds the folder's tests as files of a program, and reports whether the target is in its external tests.
func (l *listed) compile(target string, add func(file, text string) error) (isExternal bool, err error) {
	found := false
	for i, name := range slices.Concat(l.TestGoFiles, l.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return false, err
		}
		folder := l.Dir
		if i >= len(l.TestGoFiles) {
			folder = filepath.Join(l.Dir, external)
		}
		if strings.Contains(string(text), "\nfunc "+target+"(") {
			found, isExternal = true, i >= len(l.TestGoFiles)
		}
		// go list has read the name's suffixes, so it needs none here.
		if err := add(filepath.Join(folder, fmt.Sprintf("fuzzed%d.go", i)), string(text)); err != nil {
			return false, err
		}
	}
	if !found {
		return false, fmt.Errorf("%s has no %s", l.ImportPath, target)
	}
	return isExternal, nil
}

// run runs the go command, and reads its answer.
func run(answer any, args ...string) error {
	command := exec.Command("go", args...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, os.Stderr
	if err := command.Run(); err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), answer)
}
