package top

import tea "charm.land/bubbletea/v2"

// bindings are the keys, as the help shows them.
var bindings = []struct{ keys, does string }{
	{"1 2 3, Tab", "now, players, servers"},
	{"up down, k j", "move; PgUp PgDn, g G: far"},
	{"Enter", "one player; Esc goes back"},
	{"/", "filter players: words in any text; Esc clears"},
	{"< >", "sort by the column before or after"},
	{"r", "reverse the order"},
	{"x", "kick the player, after y"},
	{"p, Space", "pause and go on"},
	{"?", "this help"},
	{"q, Ctrl-C", "quit"},
}

// key handles a key.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	name := msg.String()
	m.told = ""
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.typing:
		m.edit(msg)
		return nil
	case m.ask != "":
		id := m.ask
		if m.ask = ""; name == "y" {
			return m.kick(id)
		}
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.open(helpScreen)
	case "esc", "backspace", "left":
		m.back()
	case "1", "2", "3":
		m.show(screen(name[0] - '1'))
	case "tab":
		m.show((min(m.screen, serversScreen) + 1) % playerScreen)
	case "p", "space":
		m.paused = !m.paused
	case "enter", "right":
		if id := m.atCursor(); m.screen == playersScreen && id != "" {
			m.chosen, m.course = id, nil
			m.open(playerScreen)
		}
	case "x":
		switch m.screen {
		case playerScreen:
			m.ask = m.chosen
		case playersScreen:
			m.ask = m.atCursor()
		}
	default:
		m.tableKey(name)
	}
	return nil
}

// tableKey handles keys of tables.
func (m *model) tableKey(name string) {
	switch name {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-m.room())
	case "pgdown", "ctrl+f":
		m.move(m.room())
	case "home", "g":
		m.move(-m.rows())
	case "end", "G":
		m.move(m.rows())
	case "/":
		m.show(playersScreen)
		m.typing = true
	case "<", ",":
		m.sort = (m.sort + len(playerColumns) - 1) % len(playerColumns)
		m.arrange()
	case ">", ".":
		m.sort = (m.sort + 1) % len(playerColumns)
		m.arrange()
	case "r":
		m.reverse = !m.reverse
		m.arrange()
	}
}

// edit changes the filter.
func (m *model) edit(msg tea.KeyPressMsg) {
	switch msg.Code {
	case tea.KeyEnter:
		m.typing = false
	case tea.KeyEscape:
		m.typing, m.filter = false, ""
	case tea.KeyBackspace:
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	default:
		if len(m.filter)+len(msg.Text) <= maxFilter {
			m.filter += msg.Text
		}
	}
	m.arrange()
}

// maxFilter bounds the filter in bytes.
const maxFilter = 100

// show shows one of the three main screens.
func (m *model) show(s screen) {
	m.screen, m.cursor, m.top = s, 0, 0
	m.last = s
}

// open shows a screen above the present one.
func (m *model) open(s screen) {
	if m.screen < playerScreen {
		m.last = m.screen
	}
	m.screen = s
}

// back returns to the screen behind.
func (m *model) back() {
	switch {
	case m.screen >= playerScreen:
		m.screen = m.last
	case m.screen == playersScreen && m.filter != "":
		m.filter = ""
		m.arrange()
	}
}
