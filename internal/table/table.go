// Package table prints tables for people.
package table

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Column describes one column of a table.
type Column struct {
	Name   string
	Number bool // aligned to the right
	// Drop orders the columns that a narrow table leaves out, the highest first. A column with 0 always stays.
	Drop int
}

// gap is the number of spaces between two columns.
const gap = 2

// Print prints rows below the names of their columns. It leaves out columns that do not fit into width, which is in
// characters; width 0 has room for all.
func Print(w io.Writer, width int, columns []Column, rows [][]string) {
	widths := make([]int, len(columns))
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
		widths[i] = utf8.RuneCountInString(c.Name)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	shown := fitting(columns, widths, width)
	printRow(w, columns, widths, shown, names)
	for _, row := range rows {
		printRow(w, columns, widths, shown, row)
	}
}

// fitting chooses the columns that fit into a width.
func fitting(columns []Column, widths []int, width int) (shown []bool) {
	shown = make([]bool, len(columns))
	total := -gap
	for i := range columns {
		shown[i] = true
		total += widths[i] + gap
	}
	for width > 0 && total > width {
		worst := 0
		for i := range columns {
			if shown[i] && (!shown[worst] || columns[i].Drop > columns[worst].Drop) {
				worst = i
			}
		}
		if columns[worst].Drop == 0 {
			break
		}
		shown[worst] = false
		total -= widths[worst] + gap
	}
	return shown
}

func printRow(w io.Writer, columns []Column, widths []int, shown []bool, row []string) {
	var line strings.Builder
	for i, text := range row {
		if !shown[i] {
			continue
		}
		if line.Len() > 0 {
			line.WriteString(strings.Repeat(" ", gap))
		}
		if columns[i].Number {
			fmt.Fprintf(&line, "%*s", widths[i], text)
		} else {
			fmt.Fprintf(&line, "%-*s", widths[i], text)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// TerminalWidth returns the width of a terminal in characters, or 0 if w is not a terminal.
func TerminalWidth(w io.Writer) int {
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
