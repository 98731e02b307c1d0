//go:build interop

package interop_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// installing is the time limit of one installation.
const installing = 5 * time.Minute

// runtime is a language in which peers are written.
type runtime struct {
	name    string
	version []string                              // command that prints the language's version
	pins    string                                // file under peers/ that pins the libraries' versions
	builds  []string                              // files under peers/ that are compiled with the libraries
	install func(dir string) error                // installs the libraries into a new directory
	line    func(dir string) (env, line []string) // start of the command line of a script
	ready   func() (string, error)                // returns the directory once the libraries are installed
	// compiled says that the installation contains the peer; otherwise it is a script.
	compiled bool
}

var (
	python = newRuntime(runtime{
		name: "python", version: []string{"python3", "--version"}, pins: "requirements.txt",
		install: installPython("requirements.txt", "python3"), line: pythonLine,
	})
	// stock is the original RakNet in C++, for which only some Pythons have a package.
	stock = newRuntime(runtime{
		name: "stock", version: []string{"python3", "--version"}, pins: "requirements-raknet.txt",
		install: installPython("requirements-raknet.txt", "python3"), line: pythonLine,
	})
	// stock11 is the original RakNet as protocol 11, with IPv6. Its package needs Python 3.12.
	stock11 = newRuntime(runtime{
		name: "stock11", version: append(python312, "--version"), pins: "requirements-raknet11.txt",
		install: installPython("requirements-raknet11.txt", python312...), line: pythonLine,
	})
	node = newRuntime(runtime{
		name: "node", version: []string{"node", "--version"}, pins: "package-lock.json",
		install: installNode,
		line: func(dir string) (env, line []string) {
			// raknet-node frees its buffers on the wrong thread, so that V8 crashes when it collects them. With this
			// much room it never collects.
			line = []string{"node", "--min-semi-space-size=64", "--max-semi-space-size=64"}
			return []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}, line
		},
	})
)

// python312 runs Python 3.12. pyenv, which some machines have, offers it only if its variable names the version.
var python312 = []string{"env", "PYENV_VERSION=3.12", "python3.12"}

func newRuntime(r runtime) *runtime {
	r.ready = sync.OnceValues(r.prepare)
	return &r
}

// dir returns the directory with the libraries. A failed installation fails the test.
func (r *runtime) dir(t *testing.T) string {
	t.Helper()
	dir, err := r.ready()
	if err != nil {
		t.Fatalf("install the %s peers: %v", r.name, err)
	}
	return dir
}

// prepare installs into the user's cache, in a directory named after the content, unless an earlier run did.
func (r *runtime) prepare() (string, error) {
	version, err := exec.Command(r.version[0], r.version[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.version[0], err)
	}
	pins, err := os.ReadFile(filepath.Join("peers", r.pins))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	what := append(version, pins...)
	for _, name := range r.builds {
		source, err := os.ReadFile(filepath.Join("peers", name))
		if err != nil {
			return "", err
		}
		what = append(what, source...)
	}
	sum := sha256.Sum256(what)
	dir := filepath.Join(cache, "tidegate-interop", fmt.Sprintf("%s-%x", r.name, sum[:6]))
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil { // an interrupted installation
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := r.install(dir); err != nil {
		return "", err
	}
	return dir, os.WriteFile(complete, nil, 0o644)
}

func installPython(requirements string, python ...string) func(dir string) error {
	return func(dir string) error {
		if err := command(".", python[0], append(python[1:], "-m", "venv", dir)...); err != nil {
			return err
		}
		return command("peers", filepath.Join(dir, "bin", "python"), "-m", "pip", "install",
			"--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", requirements)
	}
}

func pythonLine(dir string) (env, line []string) {
	return nil, []string{filepath.Join(dir, "bin", "python"), "-B"} // -B: leave no files beside the scripts
}

func installNode(dir string) error {
	if err := copyPeerFiles(dir, "package.json", "package-lock.json"); err != nil {
		return err
	}
	return command(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
}

// copyPeerFiles copies files from peers/ into a directory.
func copyPeerFiles(dir string, names ...string) error {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join("peers", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program in a directory. An error contains its output.
func command(dir, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
