package main

import (
	"fmt"
	"strings"
)

// Page is a manual page under construction. Its text is free of markup: the methods escape it.
type Page struct {
	text    strings.Builder
	heading bool // the last line is a heading
}

// Title has the facts of a page's first and last lines, and of its section NAME.
type Title struct {
	Name    string // of the page, such as tidegate-run
	Section int    // of the manual: 1 for commands, 5 for files
	Date    string // of the release, such as 2026-11-30; may be empty
	Release string // program and version
	Purpose string // in one line
}

// New begins a page.
func New(t Title) *Page {
	p := new(Page)
	p.line(fmt.Sprintf(`.TH %q %d %q %q "Tidegate manual"`, strings.ToUpper(t.Name), t.Section, t.Date, t.Release))
	p.line(".nh") // no hyphenation: pages are full of names
	p.Section("NAME")
	p.line(escape(t.Name) + ` \-`)
	p.wrapped(t.Purpose)
	return p
}

// String returns the page.
func (p *Page) String() string { return p.text.String() }

// Section begins a section.
func (p *Page) Section(title string) {
	p.line(".SH " + quote(title))
	p.heading = true
}

// Subsection begins a part of a section.
func (p *Page) Subsection(title string) {
	p.line(".SS " + quote(title))
	p.heading = true
}

// Paragraphs adds text. Empty lines separate paragraphs, and lines that begin with spaces stay as they are.
func (p *Page) Paragraphs(text string) {
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			p.Break()
		}
		p.lines(paragraph)
	}
}

// lines adds the lines of a paragraph. Runs of indented lines are code.
func (p *Page) lines(paragraph string) {
	code := false
	for line := range strings.SplitSeq(paragraph, "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != code {
			p.line(map[bool]string{true: ".RS 4\n.EX", false: ".EE\n.RE"}[indented])
			code = indented
		}
		line = strings.TrimSpace(line)
		if code {
			p.line(escape(line))
		} else {
			p.wrapped(line)
		}
	}
	if code {
		p.line(".EE\n.RE")
	}
}

// Break begins a paragraph, if there is text in the section.
func (p *Page) Break() {
	if !p.heading {
		p.line(".PP")
	}
}

// widest is the largest number of characters in a line of text: editors and lint programs want short ones.
const widest = 72

// wrapped adds a line of text as several short ones.
func (p *Page) wrapped(line string) {
	short := ""
	for _, word := range strings.Fields(line) {
		if short != "" && len(short)+1+len(word) > widest {
			p.line(escape(short))
			short = ""
		}
		short = strings.TrimPrefix(short+" "+word, " ")
	}
	p.line(escape(short))
}

// Code adds lines that keep their form.
func (p *Page) Code(lines ...string) {
	p.Break()
	p.line(".RS 4\n.EX")
	for _, line := range lines {
		p.line(escape(line))
	}
	p.line(".EE\n.RE")
}

// Item adds a term and its explanation.
func (p *Page) Item(term, text string) {
	p.line(".TP\n" + `\fB` + escape(term) + `\fR`)
	if text == "" {
		text = "No further explanation."
	}
	p.lines(text)
}

func (p *Page) line(text string) {
	p.text.WriteString(text + "\n")
	p.heading = false
}

// escape makes text safe: no character of it is a request or an escape, and hyphens can be copied.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// quote makes text one argument of a request.
func quote(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
