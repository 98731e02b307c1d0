package top

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"tidegate/internal/admin"
)

// screen is what the terminal shows.
type screen int

const (
	nowScreen screen = iota
	playersScreen
	serversScreen
	playerScreen
	helpScreen
)

// interval is the time between two samples.
const interval = time.Second

// kept is the number of samples in a time line.
const kept = 120

// model is the state of the live view. It implements tea.Model: Update changes it, and View shows it.
type model struct {
	source        *source
	ctx           context.Context
	title         string
	width, height int

	screen, last screen // last is the screen behind help or a player
	sample       Sample
	samples      []Sample // the newest last
	all          []Player
	shown        []Player // filtered and sorted
	sort         int      // index of playerColumns
	reverse      bool
	filter       string
	typing       bool   // the keys change the filter
	cursor, top  int    // rows of the table
	chosen       string // ID of the player on playerScreen
	course       []Player
	ask          string // ID of the player that the user wants to kick
	paused       bool
	inline       bool // not on a screen of its own
	err          error
	told         string // the result of a command
}

// Messages to the model.
type (
	tickMsg time.Time
	readMsg struct {
		sample  Sample
		players []Player
		err     error
	}
	toldMsg string
)

func newModel(ctx context.Context, client *admin.Client, title string) *model {
	return &model{
		source: &source{client: client}, ctx: ctx, title: title, width: 80, height: 24, screen: playersScreen,
		sort: defaultSort,
	}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.read }

// read is a command that reads a sample. Only one runs at a time.
func (m *model) read() tea.Msg {
	sample, players, err := m.source.read(m.ctx, time.Now())
	return readMsg{sample, players, err}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, m.read
	case readMsg:
		m.take(&msg)
		return m, tea.Tick(interval, func(t time.Time) tea.Msg { return tickMsg(t) })
	case toldMsg:
		m.told = string(msg)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// take takes a sample, unless the view is paused.
func (m *model) take(msg *readMsg) {
	m.err = msg.err
	if msg.err != nil || m.paused {
		return
	}
	m.sample, m.all = msg.sample, msg.players
	m.samples = append(m.samples, msg.sample)
	m.samples = m.samples[max(0, len(m.samples)-kept):]
	if p := m.player(); p != nil && m.chosen != "" {
		m.course = append(m.course, *p)
		m.course = m.course[max(0, len(m.course)-kept):]
	}
	m.arrange()
}

// player returns the chosen player, or nil if the session has ended.
func (m *model) player() *Player {
	i := slices.IndexFunc(m.all, func(p Player) bool { return p.ID == m.chosen })
	if i < 0 {
		return nil
	}
	return &m.all[i]
}

// arrange filters and sorts the players. The cursor stays at its player.
func (m *model) arrange() {
	at := m.atCursor()
	m.shown = m.shown[:0]
	for _, p := range m.all {
		if p.matches(m.filter) {
			m.shown = append(m.shown, p)
		}
	}
	compare := playerColumns[m.sort].compare
	slices.SortStableFunc(m.shown, func(a, b Player) int {
		if m.reverse {
			return compare(&b, &a)
		}
		return compare(&a, &b)
	})
	if i := slices.IndexFunc(m.shown, func(p Player) bool { return p.ID == at }); i >= 0 {
		m.cursor = i
	}
	m.move(0)
}

// matches reports whether any text of the player contains each word of a filter.
func (p *Player) matches(filter string) bool {
	text := strings.ToLower(strings.Join([]string{
		p.ID, p.Client.Address, p.Server.Address, p.Listener, p.Route, p.State, p.Mode, p.Client.Protocol, p.Server.Protocol,
	}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// atCursor returns the ID of the player at the cursor; empty: none.
func (m *model) atCursor() string {
	if m.cursor >= len(m.shown) {
		return ""
	}
	return m.shown[m.cursor].ID
}

// rows returns the number of rows that the table of the screen has.
func (m *model) rows() int {
	if m.screen == serversScreen {
		return len(m.sample.Servers)
	}
	return len(m.shown)
}

// move moves the cursor, and the table so that the cursor is visible.
func (m *model) move(by int) {
	m.cursor = max(0, min(m.cursor+by, m.rows()-1))
	room := m.room()
	m.top = max(0, min(m.top, m.cursor, m.rows()-room))
	m.top = max(m.top, m.cursor-room+1)
}

// kick ends a session by the API.
func (m *model) kick(id string) tea.Cmd {
	return func() tea.Msg {
		var done struct{}
		path := "/api/v1/sessions/" + url.PathEscape(id) + "/kick"
		if err := m.source.client.Post(m.ctx, path, admin.Kick{}, &done); err != nil {
			return toldMsg("kick " + id + ": " + err.Error())
		}
		return toldMsg("kicked: session " + id)
	}
}
