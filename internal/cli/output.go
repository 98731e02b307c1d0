package cli

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v2"
	"tidegate/internal/config"
	"tidegate/internal/each"
	"tidegate/internal/table"
)

// output is the writer for the commands' output. It replaces characters that could move a terminal's cursor, change its
// title or hide text: much of the output comes from clients, captures and servers. It keeps the first error, so that
// commands need not check: a full disk or a closed pipe is reported once, at the end.
type output struct {
	io.Writer
	raw bool // bytes pass unchanged
	err error
}

// Write implements io.Writer. The caller writes whole characters.
func (o *output) Write(b []byte) (int, error) {
	text := b
	if !o.raw {
		text = bytes.Map(safe, b)
	}
	if _, err := o.Writer.Write(text); err != nil {
		o.err = cmp.Or(o.err, err)
		return 0, err
	}
	return len(b), nil
}

// safe returns a character, or a question mark for one that a terminal might obey.
func safe(r rune) rune {
	if r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// printable returns a text of one line that is safe to print.
func printable(text string) string {
	return strings.NewReplacer("\n", "?", "\t", "?").Replace(strings.Map(safe, text))
}

// rawOutput returns the output of a command that writes a file. Its bytes pass unchanged.
func rawOutput(c *cli.Context) io.Writer {
	if o, ok := c.App.Writer.(*output); ok {
		o.raw = true
	}
	return c.App.Writer
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// terminalOf returns the file behind an output, whose width can be asked.
func terminalOf(w io.Writer) io.Writer {
	if o, ok := w.(*output); ok {
		return o.Writer
	}
	return w
}

// printTable prints a table. On a terminal it leaves out columns that do not fit.
func printTable(w io.Writer, columns []table.Column, rows [][]string) {
	table.Print(w, table.TerminalWidth(terminalOf(w)), columns, rows)
}

// faultJSON is the JSON of a fault or warning.
type faultJSON struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want"`
}

func faultsJSON(faults []config.Fault) []faultJSON {
	return each.Of(faults, func(f config.Fault) faultJSON { return faultJSON(f) })
}
