package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// style is a style of text, as the parameters of SGR.
type style string

// Styles. The program removes styles that the terminal or $NO_COLOR does not allow. So no meaning is in a style alone.
const (
	bold    style = "1"
	faint   style = "2"
	reverse style = "7"
	alarm   style = "1;31"
)

// Render returns a text in the style.
func (s style) Render(text string) string { return "\x1b[" + string(s) + "m" + text + "\x1b[m" }

// frameLines is the number of lines around a table: two above with its heading below them, and two below.
const frameLines = 6

// room returns the number of rows of a table that fit.
func (m *model) room() int { return max(1, m.height-frameLines) }

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = !m.inline
	return v
}

// text returns the screen. It is never wider or higher than the terminal.
func (m *model) text() string {
	lines := append(m.header(), m.body()...)
	lines = lines[:min(len(lines), max(1, m.height-2))]
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines, "", m.footer())
	lines = lines[max(0, len(lines)-m.height):]
	for i := range lines {
		lines[i] = cut(lines[i], m.width)
	}
	return strings.Join(lines, "\n")
}

// header returns the lines at the top: the proxy and its sessions, and the names of the screens.
func (m *model) header() []string {
	s := &m.sample
	first := fmt.Sprintf("%s  %s sessions, %s joining", m.title, number(s.Sessions), number(s.HalfOpen))
	if m.paused {
		first += "  PAUSED"
	}
	var tabs []string
	for i, name := range []string{"1 now", "2 players", "3 servers"} {
		if screen(i) == m.screen || m.screen >= playerScreen && screen(i) == m.last {
			name = "[" + name + "]"
		}
		tabs = append(tabs, name)
	}
	return []string{bold.Render(cut(first, m.width)), strings.Join(tabs, "  ") + "  ? help", ""}
}

// footer returns the last line: a question, an error, or a hint.
func (m *model) footer() string {
	switch {
	case m.ask != "":
		return alarm.Render("kick session " + clean(m.ask) + "? y: yes, any other key: no")
	case m.typing:
		return "filter: " + clean(m.filter) + "_"
	case m.err != nil:
		return alarm.Render(cut(clean(m.err.Error()), m.width))
	case m.told != "":
		return clean(m.told)
	case m.filter != "":
		return fmt.Sprintf("filter: %s (%d of %d); Esc clears", clean(m.filter), len(m.shown), len(m.all))
	}
	return faint.Render("q quit  / filter  < > sort  Enter player  ? help")
}

func (m *model) body() []string {
	switch m.screen {
	case nowScreen:
		return m.now()
	case serversScreen:
		return tableOf(m, serverColumns, m.sample.Servers, "", false)
	case playerScreen:
		return m.one()
	case helpScreen:
		lines := []string{bold.Render("Keys")}
		for _, b := range bindings {
			lines = append(lines, fmt.Sprintf("%-14s %s", b.keys, b.does))
		}
		return lines
	}
	return tableOf(m, playerColumns, m.shown, playerColumns[m.sort].name, m.reverse)
}

// tableOf returns the visible part of a table.
func tableOf[T any](m *model, all []column[T], rows []T, sorted string, reversed bool) []string {
	columns := fitting(all, m.width-2)
	lines := []string{bold.Render("  " + heading(columns, sorted, reversed))}
	end := min(m.top+m.room(), len(rows))
	for i := m.top; i < end; i++ {
		text := row(columns, &rows[i])
		if i == m.cursor {
			lines = append(lines, reverse.Render("> "+text))
		} else {
			lines = append(lines, "  "+text)
		}
	}
	if len(rows) == 0 {
		lines = append(lines, "  none")
	}
	return lines
}

// cut shortens a line to a width. Styles take no room, and end with the line.
func cut(line string, width int) string { return ansi.Truncate(line, width, "") }
