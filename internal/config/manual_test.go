package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/protocols"
)

const (
	manual    = "../../config.example.toml"
	reference = "../../docs/configuration/*.md"
)

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readPages returns the text of all files that a pattern matches.
func readPages(t testing.TB, pattern string) string {
	t.Helper()
	pages, err := filepath.Glob(pattern)
	if err != nil || len(pages) == 0 {
		t.Fatal(pattern, err)
	}
	var all strings.Builder
	for _, page := range pages {
		all.WriteString(readFile(t, page))
	}
	return all.String()
}

// loaded parses a manual, which must have no fault and no warning, and removes the positions of its keys.
func loaded(t *testing.T, name, text string) *Config {
	t.Helper()
	c, warnings, err := Parse(name, []byte(text), known)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%s: faults:\n%v\nwarnings:\n%v", name, err, Faults(warnings))
	}
	c.places = nil
	return c
}

var commented = regexp.MustCompile(`(?m)^# ([a-z0-9_]+ = )`)

// TestManualShowsDefaults uncomments every key of the manual and compares the result with the defaults.
func TestManualShowsDefaults(t *testing.T) {
	text := readFile(t, manual)
	asShipped := loaded(t, manual, text)
	all := loaded(t, manual, commented.ReplaceAllString(text, "$1"))
	if !reflect.DeepEqual(asShipped, all) {
		t.Errorf("with its defaults written out the manual means\n%+v\nwithout them\n%+v", all, asShipped)
	}
	asShipped.Listeners, asShipped.Routes, asShipped.Upstreams = nil, nil, nil
	if want := Default(); !reflect.DeepEqual(asShipped, want) {
		t.Errorf("beside listeners, routes and upstreams the manual means\n%+v\nwant the defaults\n%+v", asShipped, want)
	}
}

// entry is one key of the manual.
type entry struct {
	active         bool
	value, comment string
}

var (
	headerLine = regexp.MustCompile(`^\[+([a-z.]+)\]+$`)
	keyLine    = regexp.MustCompile(`^(# )?([a-z0-9_]+) = (.*)$`)
)

// unset lists optional keys without a default.
var unset = []string{"route.ordered", "route.reliable"}

// entries reads the manual line by line: headers, and the comments above each key. Three spaces after the # mark an
// example that is never in force.
func entries(text string) map[string]entry {
	found := make(map[string]entry)
	table, comment := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "#   ")
		if header := headerLine.FindStringSubmatch(line); header != nil {
			table, comment = header[1], ""
		} else if key := keyLine.FindStringSubmatch(line); key != nil {
			found[child(table, key[2])] = entry{key[1] == "", key[3], comment}
			comment = ""
		} else {
			comment += line + "\n"
		}
	}
	return found
}

// TestManualIsWhole checks that every key has an entry that describes it and says whether it is optional.
func TestManualIsWhole(t *testing.T) {
	manual := entries(readFile(t, manual))
	keys := allKeys("", reflect.TypeFor[Config]())
	if len(manual) != len(keys) {
		t.Errorf("the manual has %d keys, Config %d", len(manual), len(keys))
	}
	for _, key := range keys {
		got := manual[key]
		must := "Required."
		if !got.active {
			must = "Default: " + got.value + "."
		} else if slices.Contains(unset, key) {
			must = "Default: none."
		}
		if explained, ok := strings.CutSuffix(got.comment, "# "+must+"\n"); !ok || len(explained) < 20 {
			t.Errorf("%s = %s: want an explanation that ends in %q, got\n%s", key, got.value, must, got.comment)
		}
	}
}

// TestReferenceIsWhole checks that the reference has every key in the table under its header's heading.
func TestReferenceIsWhole(t *testing.T) {
	text := readPages(t, reference)
	sections := make(map[string]string)
	for section := range strings.SplitSeq(text, "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		for _, table := range regexp.MustCompile("`\\[+([a-z.]+)\\]+`").FindAllStringSubmatch(heading, -1) {
			sections[table[1]] = body
		}
	}
	manual := entries(readFile(t, manual))
	for _, key := range allKeys("", reflect.TypeFor[Config]()) {
		dot := strings.LastIndex(key, ".")
		table, name := key[:dot], key[dot+1:]
		if key == "bedrock.versions" || key == "bedrock.max_parts" { // in [raknet]'s row; a sentence has the default
			if want := "are `" + manual[key].value + "` by default"; !strings.Contains(sections[table], want) {
				t.Errorf("%s: want the sentence ... %s", key, want)
			}
			continue
		}
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| (.*?) \\|").FindStringSubmatch(sections[table])
		if row == nil {
			t.Errorf("%s is not in the table of its section", key)
			continue
		}
		want := "`" + manual[key].value + "`"
		if manual[key].active {
			want = "required"
			if slices.Contains(unset, key) {
				want = "none"
			}
		}
		if row[1] != want {
			t.Errorf("%s has default %s, want %s", key, row[1], want)
		}
	}
}

// TestReferenceExamplesLoad loads the example files of the reference.
func TestReferenceExamplesLoad(t *testing.T) {
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readPages(t, reference), -1)
	if len(examples) != 3 {
		t.Fatalf("%d examples, want 3", len(examples))
	}
	for _, example := range examples {
		loaded(t, reference, example[1])
	}
}

// allKeys lists the keys of a struct type and its substructs, without indices of lists: listener.address.
func allKeys(path string, t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		field := t.Field(i)
		name := field.Tag.Get("toml")
		if name == "" {
			continue
		}
		if name == everyTable {
			for _, d := range protocols.Tables() {
				keys = append(keys, allKeys(child(path, d.Table), reflect.TypeOf(d.Options()).Elem())...)
			}
			continue
		}
		of := field.Type
		if of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if isTable(of) {
			keys = append(keys, allKeys(child(path, name), of)...)
		} else {
			keys = append(keys, child(path, name))
		}
	}
	return keys
}
