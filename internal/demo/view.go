package demo

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"tidegate/proxy"
)

// ANSI control sequences.
const (
	cursorUp   = "\r\x1b[%dA" // to the start of the line a number of lines above
	clearLine  = "\x1b[K"     // from the cursor to the end of the line
	clearBelow = "\x1b[J"     // from the cursor to the end of the screen
)

// view shows the progress of sessions. On a terminal it is a table with a row for each session, redrawn in place.
// Elsewhere each update adds one row for all sessions.
type view struct {
	out    io.Writer
	screen func() screen // nil if out is no terminal
	began  time.Time
	shown  time.Time // time of the latest snapshot
	before map[netip.AddrPort]proxy.Session
	drawn  []string // the lines of the table on the terminal
	headed bool
}

// newView returns a view. The function screen returns the terminal's size; it is nil without a terminal.
func newView(out io.Writer, screen func() screen, now time.Time) *view {
	return &view{out: out, screen: screen, began: now, shown: now}
}

// introduce writes a text above the table.
func (v *view) introduce(text string) {
	if v.screen == nil {
		v.write(ordinary.wrap(text))
		return
	}
	v.write(v.screen().wrap(text))
}

// conclude writes a text below the table. Without a terminal its lines stay whole, because programs parse them.
func (v *view) conclude(text string) {
	if v.screen != nil {
		text = v.screen().wrap(text)
	}
	v.write(text)
}

// show shows a snapshot of now, with rates since the last snapshot.
func (v *view) show(now time.Time, s proxy.Snapshot) {
	rows := v.measure(now, s.Sessions)
	if v.screen != nil {
		v.redraw(now, s.Sessions, rows)
		return
	}
	var lines []string
	if !v.headed {
		v.headed = true
		lines = standard.heading(spoken(s.Sessions), "time", "open")
	}
	all := sum(rows)
	lines = append(lines, standard.row(seconds(now.Sub(v.began)), fmt.Sprint(len(rows)), &all))
	v.write(strings.Join(lines, "\n") + "\n")
}

// redraw replaces the table on the terminal. Screen and table may have changed their sizes. It does not clear the
// screen first: some terminals would keep the old content above.
func (v *view) redraw(now time.Time, sessions []proxy.Session, rows []figures) {
	s := v.screen()
	var b strings.Builder
	if len(v.drawn) > 0 {
		fmt.Fprintf(&b, cursorUp, s.rows(v.drawn))
	}
	v.drawn = v.table(s, now, sessions, rows)
	for _, line := range v.drawn {
		b.WriteString(clearLine + line + "\n")
	}
	v.write(b.String() + clearBelow)
}

// table returns the lines of the table for a screen. One row stays free for the cursor: lines that scroll off the top
// cannot be replaced. Sessions without room are counted in a line. A very low screen shows only the last lines.
func (v *view) table(s screen, now time.Time, sessions []proxy.Session, rows []figures) []string {
	l := layoutFor(s)
	lines := l.heading(spoken(sessions), "client", "age")
	height := max(s.height-1, 1)
	shown := len(rows)
	if room := height - len(lines) - 1; shown > room {
		shown = max(room-1, 0)
	}
	for i := range shown {
		lines = append(lines, l.row(l.client(sessions[i].Client), seconds(sessions[i].Age), &rows[i]))
	}
	if shown < len(rows) {
		lines = append(lines, fmt.Sprintf("... and %d more", len(rows)-shown))
	}
	all := sum(rows)
	lines = append(lines, l.row("all "+fmt.Sprint(len(rows)), seconds(now.Sub(v.began)), &all))

	lines = lines[max(len(lines)-height, 0):]
	for i := range lines {
		lines[i] = s.cut(lines[i])
	}
	return lines
}

// measure returns the figures of all sessions, and stores the sessions for the next call.
func (v *view) measure(now time.Time, sessions []proxy.Session) []figures {
	interval := now.Sub(v.shown)
	rows := make([]figures, len(sessions))
	known := make(map[netip.AddrPort]proxy.Session, len(sessions))
	for i := range sessions {
		s := &sessions[i]
		before := v.before[s.Client]
		rows[i] = figures{
			clientRTT:    s.ClientStats.RTT,
			serverRTT:    s.UpstreamStats.RTT,
			toServer:     rateOf(before.FromClient, s.FromClient, interval),
			toClient:     rateOf(before.FromUpstream, s.FromUpstream, interval),
			clientResent: s.ClientStats.Resent,
			serverResent: s.UpstreamStats.Resent,
			dropped:      s.ClientStats.Dropped + s.UpstreamStats.Dropped,
		}
		known[s.Client] = *s
	}
	v.before, v.shown = known, now
	return rows
}

// spoken returns the pair of protocols of the sessions, which is the same for all.
func spoken(sessions []proxy.Session) string {
	if len(sessions) == 0 {
		return ""
	}
	return sessions[0].ClientProtocol + " to " + sessions[0].UpstreamProtocol
}

// write writes text. It ignores errors: without a reader the demo's result still counts.
func (v *view) write(text string) { _, _ = io.WriteString(v.out, text) }
