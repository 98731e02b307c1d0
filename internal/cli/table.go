package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// column is one of a table's. Numbers stand at its right end.
type column struct {
	name    string
	number  bool
	dispose int // where the table is too wide, columns leave by this number, the highest first; 0 stays
}

// printTable prints rows below the names of their columns. On a terminal, columns that do not fit are left out.
func printTable(w io.Writer, columns []column, rows [][]string) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = len(c.name)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	shown := fitting(columns, widths, terminalWidth(w))
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	printRow(w, columns, widths, shown, names)
	for _, row := range rows {
		printRow(w, columns, widths, shown, row)
	}
}

// fitting chooses the columns that fit into a width; 0 has room for all.
func fitting(columns []column, widths []int, width int) (shown []bool) {
	shown = make([]bool, len(columns))
	total := -gap
	for i := range columns {
		shown[i] = true
		total += widths[i] + gap
	}
	for width > 0 && total > width {
		worst := 0
		for i := range columns {
			if shown[i] && (!shown[worst] || columns[i].dispose > columns[worst].dispose) {
				worst = i
			}
		}
		if columns[worst].dispose == 0 {
			break
		}
		shown[worst] = false
		total -= widths[worst] + gap
	}
	return shown
}

// gap is the blanks between two columns.
const gap = 2

func printRow(w io.Writer, columns []column, widths []int, shown []bool, row []string) {
	var line strings.Builder
	for i, text := range row {
		if !shown[i] {
			continue
		}
		if line.Len() > 0 {
			line.WriteString(strings.Repeat(" ", gap))
		}
		if columns[i].number {
			fmt.Fprintf(&line, "%*s", widths[i], text)
		} else {
			fmt.Fprintf(&line, "%-*s", widths[i], text)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// terminalWidth is the width of a terminal in characters; 0 of what is none.
func terminalWidth(w io.Writer) int {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
