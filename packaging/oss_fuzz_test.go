package packaging

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestOSSFuzzBuildsEveryTarget runs build.sh with a stand-in for OSS-Fuzz's compiler. It asks for each fuzz target,
// with a dictionary, and the targets of codecs have seeds.
func TestOSSFuzzBuildsEveryTarget(t *testing.T) {
	for _, program := range []string{"bash", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	source, out, tools := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Symlink(root, filepath.Join(source, "tidegate")); err != nil {
		t.Skip(err)
	}
	compiler := "#!/bin/sh\nd=${1#tidegate/}\ngrep -qE \"^func $2\\(\" $d/*_test.go && touch \"$OUT/$3\"\n"
	if err := os.WriteFile(filepath.Join(tools, "compile_native_go_fuzzer"), []byte(compiler), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("bash", filepath.Join(root, "packaging/oss-fuzz/build.sh"))
	build.Env = append(os.Environ(), "SRC="+source, "OUT="+out, "PATH="+tools+":"+os.Getenv("PATH"))
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	targets := 0
	for _, folder := range []string{"codec", "internal", "proxy"} {
		_ = filepath.WalkDir(filepath.Join(root, folder), func(file string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			for _, found := range regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`).FindAllStringSubmatch(read(t, file), -1) {
				targets++
				below, _ := filepath.Rel(root, filepath.Dir(file))
				name := filepath.Join(out, strings.ReplaceAll(filepath.ToSlash(below), "/", "_")+"_"+found[1])
				for _, made := range []string{name, name + ".dict"} {
					if _, err := os.Stat(made); err != nil {
						t.Error(err)
					}
				}
			}
			return nil
		})
	}
	for _, codec := range []string{"enet", "raknet", "riptide", "rtype", "rudp"} {
		seeds, _ := filepath.Glob(filepath.Join(out, "codec_"+codec+"_*_seed_corpus.zip"))
		if len(seeds) == 0 {
			t.Errorf("no target of %s has seeds", codec)
			continue
		}
		corpus, err := zip.OpenReader(seeds[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(corpus.File) < 10 {
			t.Errorf("%s has %d seeds", seeds[0], len(corpus.File))
		}
		_ = corpus.Close()
	}
	if targets < 40 {
		t.Errorf("found %d fuzz targets", targets)
	}
}

// TestDictionary checks each entry of the dictionary by libFuzzer's rules.
func TestDictionary(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(read(t, "oss-fuzz/protocols.dict")), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		text, err := strconv.Unquote(value)
		if err != nil || text == "" || !regexp.MustCompile(`^\w+$`).MatchString(name) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
