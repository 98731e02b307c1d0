package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestOSSFuzzBuildsEveryTarget runs build.sh with stand-ins for our builder and the compiler. It asks for each fuzz
// target, with a dictionary and its seeds. `make oss-fuzz` really builds them.
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
	for name, script := range map[string]string{
		"builder":  "grep -qE \"^func $2\\(\" $1/*_test.go && touch \"$3\"",
		"compiler": "printf '#!/bin/sh\ntouch \"$TIDEGATE_SEEDS/0000\"' > $3 && chmod +x $3",
	} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("bash", filepath.Join(root, "packaging/oss-fuzz/build.sh"))
	build.Env = append(os.Environ(), "SRC="+source, "OUT="+out, "CXXFLAGS=", "LIB_FUZZING_ENGINE=",
		"CXX="+filepath.Join(tools, "compiler"), "BUILDER="+filepath.Join(tools, "builder"))
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
				for _, made := range []string{name, name + ".dict", name + "_seed_corpus.zip"} {
					if _, err := os.Stat(made); err != nil {
						t.Error(err)
					}
				}
			}
			return nil
		})
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
