package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a Go module that is linked into a program.
type module struct {
	Path    string
	Version string
	Sum     string
	folder  string // of its source
	purl    string // empty: that of a Go module
}

// vendored are libraries whose files are embedded in the program.
var vendored = []module{{
	Path: "uplot", Version: "1.6.32", folder: "internal/admin/dashboard/third_party/uplot", purl: "pkg:npm/uplot@1.6.32",
}}

// linkedModules returns the modules of a program in the order of their paths: Go's own library first. The vendored
// libraries come last.
func linkedModules(program string) ([]module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	folders, err := moduleFolders()
	if err != nil {
		return nil, err
	}
	goroot, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all := []module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), folder: goroot}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		m := module{Path: dep.Path, Version: dep.Version, Sum: dep.Sum, folder: folders[dep.Path+"@"+dep.Version]}
		if m.folder == "" {
			return nil, fmt.Errorf("the source of %s %s is not in the module cache", m.Path, m.Version)
		}
		all = append(all, m)
	}
	return append(all, vendored...), nil
}

// moduleFolders returns the folders of the modules that Tidegate may be linked with, by path@version.
func moduleFolders() (map[string]string, error) {
	list, err := exec.Command("go", "list", "-m", "-json", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	folders := make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var m struct{ Path, Version, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		folders[m.Path+"@"+m.Version] = m.Dir
	}
}

// licenceFile matches the names of files with licences and notices.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense)`)

// licences returns the names of the files at the top of a module's source that hold its licence.
func (m module) licences() ([]string, error) {
	entries, err := os.ReadDir(m.folder)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && licenceFile.MatchString(entry.Name()) {
			files = append(files, filepath.Join(m.folder, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s %s has no licence", m.Path, m.Version)
	}
	return files, nil
}

// notices returns the licences of modules as one text. A module without a licence is an error.
func notices(modules []module) ([]byte, error) {
	var text bytes.Buffer
	text.WriteString("The program tidegate contains the following software, under the licences below.\n")
	for _, m := range modules {
		files, err := m.licences()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "\n%s\n%s %s\n%[1]s\n", strings.Repeat("=", 100), m.Path, m.Version)
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&text, "\n%s\n", bytes.TrimSpace(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))))
		}
	}
	return text.Bytes(), nil
}

// phrases tell licences by words that only they have, the most special first.
var phrases = []struct{ id, words string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"BSD-3-Clause", "neither the name of"},
	{"BSD-2-Clause", "redistributions in binary form must reproduce"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software"},
	{"MIT", "permission is hereby granted, free of charge"},
}

// licenceIDs returns the SPDX identifiers of a module's licences.
func licenceIDs(m module) ([]string, error) {
	files, err := m.licences()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		words := strings.Join(strings.FieldsFunc(strings.ToLower(string(content)), func(r rune) bool {
			return r <= ' '
		}), " ")
		words = strings.ReplaceAll(words, "license, version", "license version")
		for _, p := range phrases {
			if strings.Contains(words, p.words) {
				ids = append(ids, p.id)
				break
			}
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s %s: its licence is unknown: add words of it to the list", m.Path, m.Version)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
