package manpage

import (
	"os/exec"
	"strings"
	"testing"
)

const example = `# A file of examples.
# With two lines.

# First.
[door]
# Name of it.
# Required.
name = "a-b"
# How wide: .5 or 'more', \e
# Default: 1.
# width = 1

# Like this one:
#
#   narrow   1
#   wide     2
#
#   [[door.lock]]
#   # Its number.
#   # Required.
#   number = 1
`

func TestConfiguration(t *testing.T) {
	p := New(Title{Name: "door.toml", Section: 5, Date: "2026-02-28", Release: "door 1", Purpose: "doors"})
	p.Configuration(example)
	want := `.TH "DOOR.TOML" 5 "2026-02-28" "door 1" "Tidegate manual"
.nh
.SH "NAME"
door.toml \-
doors
.PP
A file of examples.
With two lines.
.SH "[door]"
First.
.TP
\fBname = "a\-b"\fR
Name of it.
Required.
.TP
\fBwidth = 1\fR
How wide: .5 or 'more', \ee
Default: 1.
.SH "[[door.lock]]"
Like this one:
.PP
.RS 4
.EX
narrow   1
wide     2
.EE
.RE
.TP
\fBnumber = 1\fR
Its number.
Required.
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
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
}
