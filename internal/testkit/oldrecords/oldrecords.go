// Package oldrecords keeps the records that releases have saved, in testdata/records/RELEASE, for tests of later ones.
package oldrecords

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// golden makes Each write the records of a release. Its value is the release's version.
var golden = flag.String("golden", "", "write the records of this `release` to testdata/records")

// Each calls play with the records of a name that the releases have saved, in testdata/records/RELEASE. With
// -golden it first writes the records of this release, which save returns.
func Each[T any](t *testing.T, name string, save func() T, play func(t *testing.T, records *T)) {
	t.Helper()
	if *golden != "" {
		text, err := json.MarshalIndent(save(), "", " ")
		dir := filepath.Join("testdata", "records", *golden)
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "records", "*", name+".json")) // the pattern is valid
	if len(files) == 0 {
		t.Fatalf("%s: no records: run this test with -golden RELEASE", name)
	}
	for _, file := range files {
		t.Run(name+" of "+filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			text, err := os.ReadFile(file)
			records := new(T)
			if err = errors.Join(err, json.Unmarshal(text, records)); err != nil {
				t.Fatal(err)
			}
			play(t, records)
		})
	}
}
