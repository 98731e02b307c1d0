package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// platform is an operating system and an architecture, by Go's names. The zero platform is this machine.
type platform struct{ os, arch string }

func parsePlatform(name string) (platform, error) {
	os, arch, ok := strings.Cut(name, "/")
	if !ok {
		return platform{}, fmt.Errorf("%q: want OS/ARCH", name)
	}
	return platform{os, arch}, nil
}

// stem returns the common name of a platform's files.
func (r *release) stem(p platform) string {
	return fmt.Sprintf("tidegate_%s_%s_%s", r.version, p.os, p.arch)
}

// buildFor makes the files for one platform.
func (r *release) buildFor(p platform) error {
	stem := r.stem(p)
	folder := filepath.Join(r.work, stem)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := "tidegate"
	if p.os == "windows" {
		name += ".exe"
	}
	program := filepath.Join(folder, name)
	if err := r.goBuild(p, ".", program); err != nil {
		return err
	}
	modules, err := linkedModules(program)
	if err != nil {
		return err
	}
	licences, err := notices(modules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "THIRD-PARTY-LICENSES.txt"), licences, 0o644); err != nil {
		return err
	}
	components, err := r.components(p, modules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.folder, stem+".cdx.json"), components, 0o644); err != nil {
		return err
	}
	if p.os == "linux" && r.packages {
		if err := r.packagesFor(p, folder); err != nil {
			return err
		}
	}
	if err := r.addDocuments(p, folder); err != nil {
		return err
	}
	return r.archive(p, folder)
}

// documents lists the files and folders of the source that archives contain. Missing ones are left out.
var documents = []string{
	"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "LICENSE", "config.example.toml",
	"docs", "examples",
	"packaging/grafana", "packaging/prometheus", "packaging/wireshark",
}

// services lists the files that make Tidegate a service, for each operating system.
var services = map[string][]string{
	"linux":  {"packaging/systemd", "packaging/openrc"},
	"darwin": {"packaging/launchd"},
}

// addDocuments copies documents, the manual and completions into an archive's folder.
func (r *release) addDocuments(p platform, folder string) error {
	for _, name := range append(documents, services[p.os]...) {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		if err := copyTree(name, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"man", "completions"} {
		if err := copyTree(filepath.Join(r.work, name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file, or a folder with its files. It does not copy Go's source.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) == ".go" {
			return err
		}
		relative, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	})
}
