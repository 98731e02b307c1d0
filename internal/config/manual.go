package config

import (
	"regexp"
	"strings"
)

// Section is a table of the manual, the text of config.example.toml. The manual is the only place that describes a
// key: the schema, the manual page and the tables of docs/configuration have its text.
type Section struct {
	Header string // such as [[listener]]; empty: what comes before the first table
	Group  string // introduces a group of tables, in lines
	Text   string // introduces this table, in lines
	Keys   []ManualKey
}

// ManualKey is a key of the manual.
type ManualKey struct {
	Name, Value string
	Text        string // in lines
	Shown       bool   // in a comment, with its default
}

// Table returns the path of the table, without indices: route.message.
func (s *Section) Table() string { return strings.Trim(s.Header, "[]") }

var (
	manualHeader = regexp.MustCompile(`^\[+([a-z.0-9-]+)\]+$`)
	manualKey    = regexp.MustCompile(`^(# )?([a-z0-9_]+) = (.*)$`)
)

// Manual reads a manual. A comment describes the key or table below it. Lines that begin with "#   " show a table that
// is not in force.
func Manual(text string) []Section {
	all := []Section{{}}
	last := &all[0]
	var group, comment []string
	for line := range strings.Lines(text) {
		line, example := strings.CutPrefix(strings.TrimRight(line, "\n"), "#   ")
		key := manualKey.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "# ---"): // a ruler
		case manualHeader.MatchString(line):
			all = append(all, Section{Header: line, Group: join(group), Text: join(comment)})
			last, group, comment = &all[len(all)-1], nil, nil
		case key != nil:
			last.Keys = append(last.Keys, ManualKey{key[2], key[3], join(comment), key[1] != ""})
			comment = nil
		case strings.HasPrefix(line, "#"):
			comment = append(comment, strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
		case example: // lines of a list
			comment = append(comment, "  "+line)
		case last.Header == "" && last.Text == "": // the first paragraphs are about the file
			last.Text, comment = join(comment), nil
		case len(comment) > 0:
			group, comment = comment, nil
		}
	}
	return all
}

func join(lines []string) string { return strings.Trim(strings.Join(lines, "\n"), "\n") }

// remarks returns the texts of a manual, each in one line, by the paths of tables and keys.
func remarks(manual string) map[string]string {
	found := make(map[string]string)
	inLine := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, s := range Manual(manual) {
		found[s.Table()] = inLine(s.Text)
		for _, k := range s.Keys {
			found[child(s.Table(), k.Name)] = inLine(k.Text)
		}
	}
	return found
}
