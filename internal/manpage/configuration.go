package manpage

import (
	"regexp"
	"strings"
)

var (
	tableLine = regexp.MustCompile(`^\[+([a-z.]+)\]+$`)
	keyLine   = regexp.MustCompile(`^(?:# )?([a-z0-9_]+) = (.*)$`)
)

// Configuration adds the tables and keys of a commented TOML file: a section for each table, an item for each key. The
// comment above explains it. Lines that begin with "#   " show a table that is not in force.
func (p *Page) Configuration(text string) {
	var comment []string
	inTable := false
	for line := range strings.Lines(text) {
		line, example := strings.CutPrefix(strings.TrimRight(line, "\n"), "#   ")
		switch key := keyLine.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "# ---"): // a ruler
		case tableLine.MatchString(line):
			p.Section(line)
			p.remark(comment)
			comment, inTable = nil, true
		case key != nil:
			p.Item(key[1]+" = "+key[2], strings.Join(comment, "\n"))
			comment = nil
		case strings.HasPrefix(line, "#"):
			comment = append(comment, strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
		case example: // lines of a list
			comment = append(comment, "  "+line)
		case inTable && len(comment) > 0: // an empty line: the comment introduces the next table
			comment = append(comment, "")
		case !inTable:
			p.remark(comment)
			comment = nil
		}
	}
	p.remark(comment)
}

// remark adds a comment as paragraphs.
func (p *Page) remark(comment []string) {
	if text := strings.Trim(strings.Join(comment, "\n"), "\n"); text != "" {
		p.Break()
		p.Paragraphs(text)
	}
}
