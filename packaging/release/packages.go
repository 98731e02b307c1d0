package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nfpm is the program that makes packages.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// The environment may name the publisher of the packages. Without it, the packages are for the machine's own use.
const (
	maintainerVariable = "TIDEGATE_MAINTAINER"
	authors            = "The Tidegate authors <tidegate@localhost>"
)

// formats lists the kinds of packages.
var formats = []string{"deb", "rpm", "apk"}

// descriptions are the packages' texts. The formats rpm and apk have a field for the first line, or one line only.
var descriptions = map[string]string{
	"deb": `proxy for game servers that speaks the games' own protocols\n` + about,
	"rpm": about,
	"apk": "proxy for game servers that speaks the games' own protocols",
}

const about = `Tidegate stands in front of game servers, terminates each player's connection,\n` +
	`and forwards complete messages over RakNet, Riptide, RUDP, ENet or R-Type.`

// packagesFor makes the packages of a platform from the program in a folder.
func (r *release) packagesFor(p platform, folder string) error {
	source, err := r.stagePackages()
	if err != nil {
		return err
	}
	target, err := filepath.Abs(filepath.Join(r.folder, r.stem(p)))
	if err != nil {
		return err
	}
	template, err := os.ReadFile("packaging/nfpm.yaml")
	if err != nil {
		return err
	}
	recipe := filepath.Join(r.work, "nfpm.yaml")
	for _, format := range formats {
		values := map[string]string{
			"ARCH": p.arch, "VERSION": r.version, "STAGE": folder, "WORK": r.work, "DATE": r.date.Format(time.RFC3339),
			"DESCRIPTION": descriptions[format], "MAINTAINER": cmp.Or(os.Getenv(maintainerVariable), authors),
		}
		text := os.Expand(string(template), func(name string) string { return values[name] })
		if err := os.WriteFile(recipe, []byte(text), 0o644); err != nil {
			return err
		}
		cmd := exec.Command("go", "run", nfpm, "package", "-f", recipe, "-p", format, "-t", target+"."+format)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if err := run(cmd); err != nil {
			return err
		}
	}
	return nil
}

// packaged lists the files of the source that packages contain, and their scripts.
var packaged = []string{
	"README.md", "CHANGELOG.md", "LICENSE", "config.example.toml", "docs", "packaging/deb", "packaging/rpm",
	"packaging/apk", "packaging/systemd", "packaging/openrc", "packaging/grafana", "packaging/prometheus",
}

// stagePackages copies the files of packages, packs the manual pages, and writes the configuration. All get the date of
// the release, since nfpm takes some times from them. It returns the folder of the copies.
func (r *release) stagePackages() (source string, err error) {
	source = filepath.Join(r.work, "source")
	for _, name := range packaged {
		if err := copyTree(name, filepath.Join(source, name)); err != nil {
			return "", err
		}
	}
	example, err := os.ReadFile("config.example.toml")
	if err != nil {
		return "", err
	}
	shipped, err := packagedConfig(string(example))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(r.work, "tidegate.toml"), []byte(shipped), 0o644); err != nil {
		return "", err
	}
	if err := packTree(filepath.Join(r.work, "man"), filepath.Join(r.work, "gz")); err != nil {
		return "", err
	}
	return source, filepath.WalkDir(r.work, func(file string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(file, r.date, r.date))
	})
}

// packTree copies the files of a folder, each compressed.
func packTree(from, to string) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(file, from)+".gz")
		return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, packed(content), 0o644))
	})
}

// packagedConfig returns the configuration of packages: a service cannot write beside its configuration.
func packagedConfig(example string) (string, error) {
	shipped := strings.Replace(example, "\n# file = \"bans.jsonl\"\n", "\nfile = \"/var/lib/tidegate/bans.jsonl\"\n", 1)
	if shipped == example {
		return "", errors.New("config.example.toml has no line for bans.file")
	}
	return shipped, nil
}

// packed returns content compressed by gzip, without a time.
func packed(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = w.Write(content)                                 // memory takes all
	_ = w.Close()
	return out.Bytes()
}
