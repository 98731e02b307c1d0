package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/each"
)

// TOML writes the configuration as a file with every key that has a value, but without secrets. Apart from secrets,
// Load reads the same configuration from it.
func (c *Config) TOML() string {
	var p printer
	p.table("", reflect.ValueOf(*c))
	return strings.TrimPrefix(p.String(), "\n")
}

// Annotate adds to the lines of a text of TOML where their values come from (Origins).
func Annotate(text string, origins map[string]string) string {
	if len(origins) == 0 {
		return text
	}
	var b strings.Builder
	for line, key := range eachKey(text) {
		if from := origins[key]; from != "" {
			line = strings.TrimSuffix(line, "\n") + " # " + from + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// eachKey yields the lines of a text that TOML or Changed returned, with the paths of their keys. Headers have none.
func eachKey(text string) iter.Seq2[string, string] {
	return func(yield func(line, key string) bool) {
		counts, table := make(map[string]int), "" // counts has the tables so far of each list
		for line := range strings.Lines(text) {
			key, header := "", strings.Trim(line, "[]\n")
			switch name, _, isKey := strings.Cut(line, " = "); {
			case strings.HasPrefix(line, "["):
				table = ""
				for part := range strings.SplitSeq(header, ".") {
					table = child(table, part)
					if n := counts[table]; n > 0 && !strings.HasSuffix(header, part) {
						table = item(table, n-1)
					}
				}
				if strings.HasPrefix(line, "[[") {
					counts[table]++
					table = item(table, counts[table]-1)
				}
			case isKey:
				key = child(table, name)
			}
			if !yield(line, key) {
				return
			}
		}
	}
}

// Changed returns the part of a text of TOML whose values differ from the defaults, with the header of each table in a
// list. Of keys with an origin, it returns only values that the file states there.
func Changed(text string, origins map[string]string) string {
	standard := make(map[string]bool)
	defaultLines(standard, "", reflect.ValueOf(*Default()))
	var b strings.Builder
	table, header := "", ""
	for line, key := range eachKey(text) {
		from := origins[key]
		switch {
		case from != "" && !strings.HasPrefix(from, "line"):
		case strings.HasPrefix(line, "[["):
			table, header = strings.Trim(line, "[]\n"), ""
			b.WriteString("\n" + line)
		case strings.HasPrefix(line, "["):
			table = strings.Trim(line, "[]\n")
			header = "\n" + line
		case line != "\n" && (from != "" || !standard[child(table, line)]):
			b.WriteString(header + line)
			header = ""
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// defaultLines adds the lines that the printer writes for the defaults, each after the path of its table.
func defaultLines(lines map[string]bool, path string, table reflect.Value) {
	for _, name := range keysOf(table.Type()) {
		value, ok := fieldOf(table, name)
		switch {
		case !ok: // a table that only some have
		case !holdsTables(value.Type()):
			lines[child(path, name+" = "+literal(value)+"\n")] = true
		case value.Kind() == reflect.Slice:
			element := reflect.New(value.Type().Elem())
			setDefaults(element.Elem())
			if entry, ok := element.Interface().(owner); ok {
				entry.inherit(Default())
			}
			defaultLines(lines, child(path, name), element.Elem())
		default:
			defaultLines(lines, child(path, name), value)
		}
	}
}

// printer writes tables. Subtables follow the other keys of a table, as TOML requires.
type printer struct{ strings.Builder }

func (p *printer) table(path string, table reflect.Value) {
	for _, name := range keysOf(table.Type()) {
		if value, ok := fieldOf(table, name); ok && !holdsTables(value.Type()) && !unstated(value) {
			fmt.Fprintf(p, "%s = %s\n", name, literal(value))
		}
	}
	for _, name := range keysOf(table.Type()) {
		value, ok := fieldOf(table, name)
		switch {
		case !ok || !holdsTables(value.Type()):
		case value.Kind() == reflect.Slice:
			for j := range value.Len() {
				fmt.Fprintf(p, "\n[[%s]]\n", child(path, name))
				p.table(child(path, name), value.Index(j))
			}
		default:
			fmt.Fprintf(p, "\n[%s]\n", child(path, name))
			p.table(child(path, name), value)
		}
	}
}

// holdsTables reports whether a type is a table or a list of tables.
func holdsTables(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && len(keysOf(t)) > 0
}

// unstated reports whether a value is missing: a word that was not chosen, or an empty address.
func unstated(v reflect.Value) bool {
	word, isChoice := v.Interface().(choice)
	return v.IsZero() && (v.Type() == addressType ||
		isChoice && v.Kind() == reflect.String && !slices.Contains(word.Choices(), ""))
}

// literal writes a value that is not a table.
func literal(v reflect.Value) string {
	if text, ok := v.Interface().(fmt.Stringer); ok {
		return basic(text.String())
	}
	switch v.Kind() {
	case reflect.String:
		return basic(v.String())
	case reflect.Slice:
		elements := make([]string, v.Len())
		for i := range elements {
			elements[i] = literal(v.Index(i))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case reflect.Map:
		var entries []string
		for _, key := range v.MapKeys() {
			entries = append(entries, basic(key.String())+" = "+literal(v.MapIndex(key)))
		}
		slices.Sort(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// basic returns a text in quotes. JSON's quoting is TOML's, except for one control character that JSON does not
// escape.
func basic(text string) string {
	quoted, _ := json.Marshal(text) // a string is always written
	return strings.ReplaceAll(string(quoted), "\x7f", `\u007f`)
}

// maxRendered is the number of bytes of a text that a fault shows.
const maxRendered = 60

// render writes a value as TOML, shortened. Tables and other values without a short form are empty.
func render(value any) string {
	if s, ok := value.(fmt.Stringer); ok {
		return quote(s.String())
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Slice:
		return renderList(v)
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16:
		return fmt.Sprint(value)
	case reflect.Float64:
		return renderFloat(v.Float())
	default:
		return ""
	}
}

// renderFloat writes a float so that it does not look like an integer: it adds a point if needed.
func renderFloat(f float64) string {
	text := strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64))
	if strings.ContainsAny(text, ".en") { // also in inf and nan
		return strings.TrimPrefix(text, "+")
	}
	return text + ".0"
}

// renderList does not descend into nested lists, so that deep nesting in a file costs nothing.
func renderList(list reflect.Value) string {
	var b strings.Builder
	for i := range list.Len() {
		if b.Len() > maxRendered {
			b.WriteString(", ...")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		element := list.Index(i).Interface()
		switch reflect.ValueOf(element).Kind() {
		case reflect.Map:
			return ""
		case reflect.Slice:
			b.WriteString("[...]")
		default:
			b.WriteString(render(element))
		}
	}
	return "[" + b.String() + "]"
}

func quote(text string) string {
	if len(text) > maxRendered {
		text = strings.ToValidUTF8(text[:maxRendered], "") + "..."
	}
	return strconv.Quote(text)
}

// isZero reports whether a value is missing or the zero value of its type.
func isZero(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// either joins quoted alternatives as a sentence does: "a", "b" or "c".
func either(words []string) string {
	return enumerate(each.Of(words, strconv.Quote))
}

// enumerate joins words as a sentence does: a, b or c.
func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Change is a key whose value differs between two configurations.
type Change struct {
	Key      string // with the name of its table, for example `upstream "arena" servers`
	Old, New string // as TOML, without secrets; empty: the configuration does not have the key
}

// Changes lists the keys that differ in next, in the order of the file. Removed keys come last.
func (c *Config) Changes(next *Config) (changes []Change) {
	oldKeys, olds := flatten(c.TOML())
	newKeys, news := flatten(next.TOML())
	for _, key := range newKeys {
		if olds[key] != news[key] {
			changes = append(changes, Change{key, olds[key], news[key]})
		}
	}
	for _, key := range oldKeys {
		if !slices.Contains(newKeys, key) {
			changes = append(changes, Change{key, olds[key], ""})
		}
	}
	return changes
}

// flatten returns the keys of a printed configuration in their order, and their values. A table of a list goes by its
// name, or by its place in the list.
func flatten(text string) (keys []string, values map[string]string) {
	values = make(map[string]string)
	labels := make(map[string]string) // of the tables of lists that hold the present line, by path
	places := make(map[string]int)
	path, base := "", "" // base is the present table of a list without its name or place
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, isKey := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "[["):
			path = strings.Trim(line, "[]")
			delete(labels, path)
			base = label(labels, path)
			places[base]++
			labels[path] = fmt.Sprintf("%s %d", base, places[base])
		case strings.HasPrefix(line, "["):
			path = strings.Trim(line, "[]")
		case isKey && key == "name" && path != "" && labels[path] != "":
			labels[path] = base + " " + value
		case isKey:
			full := label(labels, path) + " " + key
			keys, values[full] = append(keys, full), value
		}
	}
	return keys, values
}

// label returns the name of a table. Inside a list, it has the name of the list's table.
func label(labels map[string]string, path string) string {
	for at := len(path); at > 0; at = strings.LastIndexByte(path[:at], '.') {
		if labels[path[:at]] != "" {
			return labels[path[:at]] + path[at:]
		}
	}
	return path
}
