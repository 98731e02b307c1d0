// Command release builds everything that a release consists of into a folder: archives, packages for Linux, lists of
// components, licences and checksums. Two runs on the same commit make the same bytes.
//
// Run it at the top of the source: go run ./packaging/release
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "dist", "write the release into `FOLDER`, which is emptied before")
	platforms := flag.String("platforms", strings.Join(everywhere, ","), "build for these `OS/ARCH`, separated by commas")
	packages := flag.Bool("packages", true, "also make deb, rpm and apk packages")
	flag.Parse()
	r := release{folder: *out, packages: *packages}
	if err := r.build(strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// everywhere lists the platforms of a release.
var everywhere = []string{
	"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
}

// release is a release under construction.
type release struct {
	folder   string // of the results
	work     string // folder of intermediate files
	version  string // without a "v": 0.1.0, or 0.1.0-dev
	commit   string
	date     time.Time // of the commit; all files have it
	packages bool
}

func (r *release) build(platforms []string) error {
	if err := r.identify(); err != nil {
		return err
	}
	var err error
	if r.work, err = os.MkdirTemp("", "tidegate-release-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	if err := errors.Join(os.RemoveAll(r.folder), os.MkdirAll(r.folder, 0o755)); err != nil {
		return err
	}
	fmt.Println("tidegate", r.version, r.commit[:12], r.date.Format(time.DateOnly))
	if err := r.writeTexts(); err != nil {
		return fmt.Errorf("manual and completions: %w", err)
	}
	for _, name := range platforms {
		p, err := parsePlatform(name)
		if err != nil {
			return err
		}
		if err := r.buildFor(p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	module, err := output("go", "list", "-m")
	if err == nil {
		err = r.writeManagers(module)
	}
	if err != nil {
		return fmt.Errorf("formula and manifest: %w", err)
	}
	return writeSums(r.folder)
}

// identify asks git for the commit, its date, and the version: the tag v0.1.0 at the commit makes the release 0.1.0,
// and without a tag the version is that of the source.
func (r *release) identify() error {
	facts, err := output("git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return fmt.Errorf("a release needs the source's git repository: %w", err)
	}
	commit, seconds, _ := strings.Cut(facts, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.date = commit, time.Unix(unix, 0).UTC()
	source, err := os.ReadFile("internal/daemon/version.go")
	if err != nil {
		return err
	}
	tag, _ := output("git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*") // no tag is no fault
	r.version, err = version(tag, string(source))
	if err != nil {
		return err
	}
	changed, err := output("git", "status", "--porcelain", "--untracked-files=no")
	if err == nil && tag != "" && changed != "" {
		err = fmt.Errorf("the source differs from the tag %s:\n%s", tag, changed)
	}
	return err
}

var releaseLine = regexp.MustCompile(`(?m)^var Release = "([^"]+)"$`)

// version returns the version of a tag, or of the source if the tag is empty. A tag must be of the source's version.
func version(tag, source string) (string, error) {
	found := releaseLine.FindStringSubmatch(source)
	if found == nil {
		return "", errors.New("internal/daemon/version.go has no version")
	}
	if tag == "" {
		return found[1], nil
	}
	of := strings.TrimPrefix(tag, "v")
	if of != found[1] && of != strings.TrimSuffix(found[1], "-dev") {
		return "", fmt.Errorf("the tag %s is not of the source's version %s", tag, found[1])
	}
	return of, nil
}

// goBuild builds a command for a platform: the program is ".".
func (r *release) goBuild(p platform, source, file string) error {
	const variables = " -X tidegate/internal/daemon."
	flags := "-s -w" + variables + "Release=" + r.version + variables + "commit=" + r.commit + variables + "date=" +
		r.date.Format(time.DateOnly)
	// The go command knows no commit in some checkouts. The tag leaves out the generators of documentation that the
	// library for commands has.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "urfave_cli_no_docs", "-ldflags", flags,
		"-o", file, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
	return run(cmd)
}

// writeTexts writes manual pages and completions, which are the same for all platforms.
func (r *release) writeTexts() error {
	for source, name := range map[string]string{".": "tidegate", "./packaging/manual": "manual"} {
		if err := r.goBuild(platform{}, source, filepath.Join(r.work, name)); err != nil {
			return err
		}
	}
	if err := run(exec.Command(filepath.Join(r.work, "manual"), filepath.Join(r.work, "man"))); err != nil {
		return err
	}
	folder := filepath.Join(r.work, "completions")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := exec.Command(filepath.Join(r.work, "tidegate"), "completion", shell).Output()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "tidegate."+shell), script, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// output returns what a program prints, without the last line's end.
func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", name, err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// run runs a program. An error has its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmp.Or(filepath.Base(cmd.Path), cmd.Path), err, out)
	}
	return nil
}
