// Package sections reads the manual of the configuration, which is config.example.toml: for the manual page, the JSON
// schema and the tables of docs/configuration.
package sections

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
	Keys   []Key
}

// Key is a key of the manual.
type Key struct {
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

// Read reads a manual. A comment describes the key or table below it. Lines that begin with "#   " show a table that
// is not in force.
func Read(text string) []Section {
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
			last.Keys = append(last.Keys, Key{key[2], key[3], join(comment), key[1] != ""})
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
