package demo

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen is the size of a terminal in characters.
type screen struct {
	width, height int
}

// ordinary is the default screen for terminals of unknown size.
var ordinary = screen{width: 80, height: 24}

// screenOf returns a function for the current size of out's terminal, which may change at any time.
func screenOf(out io.Writer) func() screen {
	return func() screen {
		f, ok := out.(*os.File)
		if !ok {
			return ordinary
		}
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return ordinary
		}
		return screen{width: width, height: height}
	}
}

// cut returns a line without the part beyond the right edge.
func (s screen) cut(line string) string { return line[:min(len(line), s.width)] }

// rows returns the number of rows of lines that were written at another width: most terminals fold lines that have
// become too long.
func (s screen) rows(lines []string) int {
	n := 0
	for _, line := range lines {
		n += max(1, (len(line)+s.width-1)/s.width)
	}
	return n
}

// wrap breaks lines that are longer than the screen's width, at spaces. A longer word stays whole.
func (s screen) wrap(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for len(strings.TrimSuffix(line, "\n")) > s.width {
			at := strings.LastIndexByte(line[:s.width+1], ' ')
			if at <= 0 {
				break
			}
			b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = strings.TrimLeft(line[at:], " ")
		}
		b.WriteString(line)
	}
	return b.String()
}
