package top

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// column is a column of a table. Columns with a low rank are shown on narrow terminals, too.
type column[T any] struct {
	name    string
	width   int
	left    bool // of text
	rank    int
	text    func(*T) string
	compare func(a, b *T) int // for sorting; nil: by the text
}

// fitting returns the columns for a width, by their ranks.
func fitting[T any](all []column[T], width int) (shown []column[T]) {
	for rank, room := 0, width; ; rank++ {
		more := false
		for _, c := range all {
			more = more || c.rank > rank
			if c.rank == rank {
				room -= c.width + 1
			}
		}
		if room < -1 && rank > 0 {
			break
		}
		shown = shown[:0]
		for _, c := range all {
			if c.rank <= rank {
				shown = append(shown, c)
			}
		}
		if !more {
			break
		}
	}
	return shown
}

// heading returns the line of names. The sorted column has a mark.
func heading[T any](columns []column[T], sorted string, reverse bool) string {
	mark := "^"
	if reverse {
		mark = "v"
	}
	return line(columns, func(c *column[T]) string {
		if c.name == sorted {
			return c.name + mark
		}
		return c.name
	})
}

func row[T any](columns []column[T], of *T) string {
	return line(columns, func(c *column[T]) string { return c.text(of) })
}

func line[T any](columns []column[T], text func(*column[T]) string) string {
	var b strings.Builder
	for i := range columns {
		c := &columns[i]
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(fill(text(c), c.width, c.left))
	}
	return strings.TrimRight(b.String(), " ")
}

// fill makes a text as wide as its column. A text that is too long loses its end.
func fill(text string, width int, left bool) string {
	text = clean(text)
	n := utf8.RuneCountInString(text)
	switch {
	case n > width:
		return string([]rune(text)[:width-1]) + "~"
	case left:
		return text + strings.Repeat(" ", width-n)
	}
	return strings.Repeat(" ", width-n) + text
}

// clean replaces characters that a terminal might obey.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// by compares by a figure.
func by[T any, F cmp.Ordered](figure func(*T) F) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(figure(a), figure(b)) }
}

// number formats a rate or a count, in at most 6 characters.
func number(n float64) string {
	switch {
	case n < 0.05:
		return "0"
	case n < 10 && n != math.Trunc(n):
		return fmt.Sprintf("%.1f", n)
	case n < 99_999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 999_950:
		return fmt.Sprintf("%.0fk", n/1e3)
	}
	return fmt.Sprintf("%.1fM", n/1e6)
}

// size formats a number of bytes.
func size(n float64) string {
	switch {
	case n < 999.5:
		return fmt.Sprintf("%.0fB", n)
	case n < 999_950:
		return fmt.Sprintf("%.1fkB", n/1e3)
	case n < 999_950_000:
		return fmt.Sprintf("%.1fMB", n/1e6)
	}
	return fmt.Sprintf("%.1fGB", n/1e9)
}

// milliseconds formats a round trip; "-" if it is unknown.
func milliseconds(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}

// age formats a time in seconds.
func age(seconds float64) string {
	switch n := int(seconds); {
	case n < 120:
		return fmt.Sprintf("%ds", n)
	case n < 7200:
		return fmt.Sprintf("%dm", n/60)
	case n < 48*3600:
		return fmt.Sprintf("%dh", n/3600)
	default:
		return fmt.Sprintf("%dd", n/86400)
	}
}
