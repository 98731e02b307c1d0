package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/packaging/manual/sections"
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

// TestManualIsWhole checks that the manual describes every key, and says which ones are required.
func TestManualIsWhole(t *testing.T) {
	found := make(map[string]sections.Key)
	for _, s := range sections.Read(readFile(t, manual)) {
		for _, k := range s.Keys {
			found[child(s.Table(), k.Name)] = k
		}
	}
	keys := allKeys("", reflect.TypeFor[Config]())
	if len(found) != len(keys) {
		t.Errorf("the manual has %d keys, Config %d", len(found), len(keys))
	}
	for _, key := range keys {
		got := found[key]
		text, byDefault := described(got)
		if stated := byDefault == required || byDefault == none; stated == got.Shown || len(text) < 15 {
			t.Errorf("%s = %s: want an explanation, which ends in %q or %q if the key is in force; got\n%s",
				key, got.Value, required, none, got.Text)
		}
	}
}

// TestManualHasBounds looks for the upper bound of each value in the text of its key.
func TestManualHasBounds(t *testing.T) {
	about := remarks(readFile(t, manual))
	var check func(path string, table reflect.Type)
	check = func(path string, table reflect.Type) {
		for i := range table.NumField() {
			field := table.Field(i)
			key, of := child(path, field.Tag.Get("toml")), field.Type
			if of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			high := strings.Replace(field.Tag.Get(registry.TagMax), "1024GiB", "1TiB", 1)
			text := about[key]
			switch {
			case isTable(of) && field.Tag.Get("toml") != "":
				check(key, of)
			case strings.HasPrefix(text, "The same"), strings.HasPrefix(text, "As "):
			case !strings.Contains(text, high):
				t.Errorf("%s: its upper bound is %s, which is not in %q", key, high, text)
			}
		}
	}
	check("", reflect.TypeFor[Config]())
	for _, d := range protocols.Tables() {
		check(d.Table, reflect.TypeOf(d.Options()).Elem())
	}
}

// Ends of the texts of keys that are in force in the manual.
const required, none = "Required.", "Default: none."

// described returns the text of a key in one line, and its default or one of the ends above.
func described(k sections.Key) (text, byDefault string) {
	text = strings.Join(strings.Fields(k.Text), " ")
	for _, end := range []string{required, none} {
		if text, ok := strings.CutSuffix(text, end); ok {
			return strings.TrimSpace(text), end
		}
	}
	return text, k.Value
}

var update = flag.Bool("update", false, "write the tables of docs/configuration")

var marked = regexp.MustCompile(`(?s)(<!--keys:([a-z.]+)-->\n).*?(<!--end-->)`)

// TestReferenceIsWhole compares the tables of docs/configuration with the manual. "make reference" writes them.
func TestReferenceIsWhole(t *testing.T) {
	tables := make(map[string]sections.Section)
	for _, s := range sections.Read(readFile(t, manual)) {
		tables[s.Table()] = s
	}
	delete(tables, "")
	pages, err := filepath.Glob(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		was := readFile(t, page)
		is := marked.ReplaceAllStringFunc(was, func(part string) string {
			found := marked.FindStringSubmatch(part)
			s, ok := tables[found[2]]
			if !ok {
				t.Errorf("%s: the manual has no table %s, or it is shown twice", page, found[2])
			}
			delete(tables, found[2])
			return found[1] + tableOf(t, s, filepath.Base(page)) + found[3]
		})
		if *update {
			if err := os.WriteFile(page, []byte(is), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if is != was {
			t.Errorf("%s is not current: make reference", page)
		}
	}
	for table := range tables {
		t.Errorf("no page has the table %s", table)
	}
}

// tableOf returns the Markdown of a table's keys, for a page of docs/configuration.
func tableOf(t *testing.T, s sections.Section, page string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Key | Default | Meaning |\n| --- | --- | --- |\n")
	for _, k := range s.Keys {
		text, byDefault := described(k)
		switch byDefault {
		case required:
			byDefault = "required"
		case none:
			byDefault = "none"
		default:
			byDefault = "`" + byDefault + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, byDefault, markdown(t, text, page))
	}
	return b.String()
}

var (
	// codeInText is what Markdown shows as code: what has backticks, tables, lists, keys with values, texts, paths and
	// names with a dot or an underscore.
	codeInText = regexp.MustCompile("`[^`]+`|" + `\[\[?[a-z.]+\]\]?|\["[^\]]*\]|\[[0-9]+\]|\{ [^}]* \}|` +
		`\b[a-z_.]+ = (?:"[^"]*"|true|false)|"[^"]*"|/etc/[a-z]+\.[a-z]+|\b[a-z]+(?:[._][a-z0-9_]+)+\b`)
	prose      = regexp.MustCompile(`^"[a-z]+ [a-z ]+"$`)
	linkInText = regexp.MustCompile(`docs/([a-z0-9/.-]+/)?([a-z0-9-]+\.md)(?:#([a-z0-9-]+))?`)
)

// markdown returns a text of the manual with code and links, for a page of docs/configuration.
func markdown(t *testing.T, text, page string) string {
	t.Helper()
	var b strings.Builder
	for text != "" {
		at := linkInText.FindStringSubmatchIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		b.WriteString(codeInText.ReplaceAllStringFunc(text[:at[0]], func(code string) string {
			if prose.MatchString(code) {
				return code
			}
			return "`" + strings.Trim(code, "`") + "`"
		}))
		if at[0] < len(text) {
			b.WriteString(link(t, page, linkInText.FindStringSubmatch(text)))
		}
		text = text[at[1]:]
	}
	return b.String()
}

// link returns a link to a heading of a page of docs, with the heading as its text.
func link(t *testing.T, from string, found []string) string {
	t.Helper()
	folder, page, anchor := found[1], found[2], found[3]
	to := "../" + folder + page
	if folder == "configuration/" {
		to = strings.TrimSuffix(page, from)
	}
	if anchor != "" {
		to += "#" + anchor
	}
	for line := range strings.Lines(readFile(t, "../../docs/"+folder+page)) {
		title := strings.TrimSpace(strings.TrimLeft(line, "#"))
		slug := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		if strings.HasPrefix(line, "#") && (anchor == "" || slug == anchor) {
			return "[" + title + "](" + to + ")"
		}
	}
	t.Errorf("docs/%s%s has no heading for %q", folder, page, anchor)
	return ""
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9 -]`)

// TestReferenceExamplesLoad loads the example files of the reference.
func TestReferenceExamplesLoad(t *testing.T) {
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readPages(t, reference), -1)
	if len(examples) != 2 {
		t.Fatalf("%d examples, want 2", len(examples))
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
		if name == everyTable && path != "" {
			continue // the keys of the process's tables
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
