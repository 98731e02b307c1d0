package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeManagers writes a formula for Homebrew and a manifest for Scoop beside the archives that they name, if the
// module's path says where these will be.
func (r *release) writeManagers(module string) error {
	if !strings.HasPrefix(module, "github.com/") {
		return nil
	}
	from := fmt.Sprintf("https://%s/releases/download/v%s/", module, r.version)
	sums := make(map[string]string) // by the archive's name
	archives, err := filepath.Glob(filepath.Join(r.folder, "tidegate_*"))
	if err != nil {
		return err
	}
	for _, path := range archives {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sums[filepath.Base(path)] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	manifest, err := r.scoop(module, from, sums)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(r.folder, "tidegate.json"), manifest, 0o644),
		os.WriteFile(filepath.Join(r.folder, "tidegate.rb"), r.homebrew(module, from, sums), 0o644))
}

const describes = "Multi-protocol UDP proxy and relay for game servers"

// homebrew returns a formula for the archives that exist.
func (r *release) homebrew(module, from string, sums map[string]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "class Tidegate < Formula\n  desc %q\n  homepage %q\n  version %q\n  license \"MIT\"\n",
		describes, "https://"+module, r.version)
	for _, system := range []struct{ name, os string }{{"macos", "darwin"}, {"linux", "linux"}} {
		for _, cpu := range []struct{ name, arch string }{{"arm", "arm64"}, {"intel", "amd64"}} {
			name := r.stem(platform{os: system.os, arch: cpu.arch}) + ".tar.gz"
			if sums[name] == "" {
				continue
			}
			fmt.Fprintf(&b, "  on_%s do\n    on_%s do\n      url %q\n      sha256 %q\n    end\n  end\n", system.name, cpu.name,
				from+name, sums[name])
		}
	}
	b.WriteString("\n  def install\n    bin.install \"tidegate\"\n    man1.install Dir[\"man/man1/*\"]\n  end\n\n" +
		"  test do\n    system bin/\"tidegate\", \"version\"\n  end\nend\n")
	return []byte(b.String())
}

// scoop returns a manifest for the archives that exist.
func (r *release) scoop(module, from string, sums map[string]string) ([]byte, error) {
	type archive struct {
		URL    string `json:"url"`
		Hash   string `json:"hash"`
		Folder string `json:"extract_dir"`
	}
	archives := make(map[string]archive)
	for cpu, arch := range map[string]string{"64bit": "amd64", "arm64": "arm64"} {
		stem := r.stem(platform{os: "windows", arch: arch})
		if sums[stem+".zip"] != "" {
			archives[cpu] = archive{from + stem + ".zip", sums[stem+".zip"], stem}
		}
	}
	return json.MarshalIndent(map[string]any{
		"version": r.version, "description": describes, "homepage": "https://" + module, "license": "MIT",
		"architecture": archives, "bin": "tidegate.exe",
	}, "", "  ")
}
