package cli

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"

	"tidegate/internal/table"
)

// output is where commands print. It remembers the first error, so that they need not look: a full disk or a closed
// pipe is told once, at the end.
type output struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// isTerminal reports whether people read what is written.
func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// printTable prints a table. On a terminal it leaves out columns that do not fit.
func printTable(w io.Writer, columns []table.Column, rows [][]string) {
	file := w
	if o, ok := w.(*output); ok {
		file = o.Writer
	}
	table.Print(w, table.TerminalWidth(file), columns, rows)
}
