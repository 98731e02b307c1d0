// Command module gives the source the name under which its owner publishes it: the path of the module and of its
// packages, the image of the Helm chart, and README's lines about installing.
//
// Run it at the top of the source: go run ./packaging/module -image ghcr.io/you/tidegate example.org/you/tidegate
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	image := flag.String("image", "", "`NAME` of the container image; by default the path, at ghcr.io for GitHub")
	flag.Parse()
	listed, err := exec.Command("git", "ls-files", "-z").Output()
	if err == nil {
		err = rename(".", strings.Split(strings.Trim(string(listed), "\x00"), "\x00"), flag.Arg(0), *image)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
}

// name is a published name.
type name struct{ Path, Image string }

// modulePath matches paths that the go command can fetch: a host with a dot, and folders.
var modulePath = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_.~-]+)+$`)

// rename changes the files of a source tree, which are named relative to its root.
func rename(root string, files []string, path, image string) error {
	if !modulePath.MatchString(path) {
		return fmt.Errorf("%q: want the module's path, for example example.org/you/tidegate", path)
	}
	if image == "" {
		image = strings.Replace(path, "github.com/", "ghcr.io/", 1)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	first, _, _ := bytes.Cut(mod, []byte("\n"))
	old, ok := bytes.CutPrefix(first, []byte("module "))
	if !ok {
		return errors.New("go.mod does not begin with the module's path")
	}
	r := newRenamer(string(old), name{path, image}, files)
	for _, file := range files {
		if err := r.rename(root, file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// renamer changes files.
type renamer struct {
	to       name
	packages *regexp.Regexp // the path of a package, with the character before it
	module   *regexp.Regexp // the path of the module, with the words before and behind it
}

func newRenamer(old string, to name, files []string) *renamer {
	folders := make(map[string]bool)
	for _, file := range files {
		if folder, _, ok := strings.Cut(file, "/"); ok {
			folders[regexp.QuoteMeta(folder)] = true
		}
	}
	var all []string
	for folder := range folders {
		all = append(all, folder)
	}
	old = regexp.QuoteMeta(old)
	return &renamer{
		to:       to,
		packages: regexp.MustCompile(`(^|[^\w./-])` + old + `(/(?:` + strings.Join(all, "|") + `)\b)`),
		module:   regexp.MustCompile(`(?m)(^module |^replace |^require |^\t|\bmodule +?= ")` + old + `($|"$| v0\.0\.0$| =>)`),
	}
}

func (r *renamer) rename(root, file string) error {
	path := filepath.Join(root, file)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil || bytes.IndexByte(before, 0) >= 0 || filepath.Base(filepath.Dir(file)) == "testdata" {
		return err
	}
	after := r.packages.ReplaceAll(before, []byte("${1}"+r.to.Path+"${2}"))
	after = r.module.ReplaceAll(after, []byte("${1}"+r.to.Path+"${2}"))
	switch {
	case file == "README.md":
		after, err = install(after, &r.to)
	case file == "packaging/helm/tidegate/values.yaml":
		after = repository.ReplaceAll(after, []byte("${1}"+r.to.Image))
	case bytes.Equal(before, after):
		return nil
	case strings.HasSuffix(file, ".go"):
		after, err = format.Source(after) // the order of imports
	}
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return os.WriteFile(path, after, info.Mode().Perm())
}

// repository is the image of the chart.
var repository = regexp.MustCompile(`(?m)^(  repository: )\S+$`)

// unpublished and published are README's section about installing. The module's path decides: one that can be fetched
// is published.
var (
	//go:embed unpublished.txt
	unpublished string
	//go:embed published.txt
	published string
)

// section finds README's section, up to its text about versions of Go.
var section = regexp.MustCompile(`(?s)\n## Install\n.*?\n(Go 1\.21 to )`)

// install writes README's section about installing for a published name.
func install(readme []byte, to *name) ([]byte, error) {
	if !section.Match(readme) {
		return nil, errors.New("no section about installing")
	}
	text := strings.NewReplacer("PATH", to.Path, "IMAGE", to.Image).Replace(published)
	return section.ReplaceAll(readme, []byte("\n"+strings.ReplaceAll(text, "$", "$$")+"\n${1}")), nil
}
