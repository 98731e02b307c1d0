package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPage writes a page with items, paragraphs and code.
func TestPage(t *testing.T) {
	p := New(Title{Name: "door.toml", Section: 5, Date: "2026-02-28", Release: "door 1", Purpose: "doors"})
	p.Section("[[door]]")
	p.Paragraphs("Like this one:\n\n  narrow   1\n  wide     2")
	p.Item(`name = "a-b"`, "Name of it.\nHow wide: .5 or 'more', \\e")
	want := `.TH "DOOR.TOML" 5 "2026-02-28" "door 1" "Tidegate manual"
.nh
.SH "NAME"
door.toml \-
doors
.SH "[[door]]"
Like this one:
.PP
.RS 4
.EX
narrow   1
wide     2
.EE
.RE
.TP
\fBname = "a\-b"\fR
Name of it.
How wide: .5 or 'more', \ee
`
	if got := p.String(); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	lintPage(t, p.String())
}

// TestTextIsNoMarkup gives the page text that would be requests and escapes.
func TestTextIsNoMarkup(t *testing.T) {
	p := New(Title{Name: "x", Section: 1, Date: "2026-02-28", Release: "x", Purpose: `a\fBb`})
	p.Section(`.SH "quoted"`)
	p.Paragraphs(".so /etc/passwd\n'br\n" + strings.Repeat("word ", 40))
	p.Code(`.SH C:\new`, "")
	for line := range strings.Lines(p.String()) {
		if strings.HasPrefix(line, ".so") || strings.HasPrefix(line, "'") || len(line) > 80 {
			t.Errorf("line %q", line)
		}
	}
	lintPage(t, p.String())
}

// lintPage checks a page by mandoc, where it is installed.
func lintPage(t *testing.T, page string) {
	t.Helper()
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Log("no mandoc: the page is not checked by it")
		return
	}
	lint := exec.Command(mandoc, "-T", "lint", "-W", "style")
	lint.Stdin = strings.NewReader(page)
	out, _ := lint.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") { // a program of a test knows no commit, and so no date
			t.Error(line)
		}
	}
}
