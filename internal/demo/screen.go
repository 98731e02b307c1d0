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

// ordinary is the screen that is assumed where a terminal does not tell its size.
var ordinary = screen{width: 80, height: 24}

// screenOf returns what tells the present size of the terminal that out writes to. It may change at any time.
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

// cut returns a line without what lies beyond the right edge.
func (s screen) cut(line string) string { return line[:min(len(line), s.width)] }

// rows is how many rows of the screen lines take up that were written when it had another width: most terminals fold
// lines that have become too long.
func (s screen) rows(lines []string) int {
	n := 0
	for _, line := range lines {
		n += max(1, (len(line)+s.width-1)/s.width)
	}
	return n
}

// wrap breaks the lines of a text at spaces where they are longer than the screen is wide. A longer word stays whole.
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
